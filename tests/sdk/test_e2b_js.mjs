/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The vendor's JavaScript SDK for E2B sandboxes, unmodified, against the fake.
 * SDK_DIR is where the package was installed.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const require = createRequire(path.join(process.env.SDK_DIR,
    'package.json'));
const { Sandbox, CommandExitError, TimeoutError, NotFoundError,
    AuthenticationError } = require('@e2b/code-interpreter');
const KEY = 'e2b_0123456789abcdef';

/*
 * Runs the fake as a program, with options as JSON; each line that it gets is a
 * fault. Returns what it saw: requests and violations.
 */
async function withServer(body, options = {}) {
    const child = spawn('python3', [
        path.join(here, '..', 'fakes', 'e2b_server.py'),
        JSON.stringify(options),
    ], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: child.stdout })[
        Symbol.asyncIterator]();
    const url = (await lines.next()).value;
    process.env.E2B_API_URL = url;
    process.env.E2B_SANDBOX_URL = url;
    process.env.E2B_API_KEY = KEY;
    const fail = async (fault) => {
        child.stdin.write(JSON.stringify(fault) + '\n');
        assert.equal((await lines.next()).value, 'ok');
    };
    try {
        await body(fail);
    } finally {
        child.stdin.end();
    }
    const seen = JSON.parse((await lines.next()).value);
    await new Promise((resolve) => child.on('close', resolve));
    assert.deepEqual(seen.violations, []);
    return seen.requests;
}

const tests = {
    async 'create, list, time to live, kill'() {
        const requests = await withServer(async () => {
            const one = await Sandbox.create({
                envs: { TASK: 'x' }, metadata: { job: 'b c' } });
            const page = Sandbox.list({
                query: { metadata: { job: 'b c' } } });
            const found = await page.nextItems();
            assert.equal(found.length, 1);
            assert.equal(found[0].sandboxId, one.sandboxId);
            await one.setTimeout(60000);
            const info = await one.getInfo();
            assert.equal(info.state, 'running');
            await one.updateNetwork({ allowOut: ['8.8.8.8'],
                                      denyOut: ['0.0.0.0/0'] });
            assert.equal((await one.getMetrics())[0].cpuCount, 2);
            assert.equal(await one.kill(), true);
            assert.equal(await Sandbox.kill(one.sandboxId), false);
        });
        assert.equal(requests[0], 'POST /v2/sandboxes 201');
    },

    async 'refusals of the API'() {
        await withServer(async () => {
            await assert.rejects(Sandbox.create(), /405/);
        }, { create: ['v1'] });
        await withServer(async () => {
            await assert.rejects(Sandbox.create({ apiKey: 'e2b_00' }),
                AuthenticationError);
            await assert.rejects(Sandbox.create('none'), /404/);
        });
    },

    async 'files'() {
        await withServer(async () => {
            const s = await Sandbox.create('base');
            assert.equal(await s.files.makeDir('/home/user/w'), true);
            assert.equal(await s.files.makeDir('/home/user/w'), false);
            await s.files.write('/home/user/w/é.csv', 'a,é\n');
            assert.equal(await s.files.read('w/é.csv'), 'a,é\n');
            await s.files.write([{ path: 'one', data: '1' },
                                 { path: '/tmp/q/two', data: '2' }]);
            assert.equal(await s.files.read('/tmp/q/two'), '2');
            await s.files.write('big', 'x'.repeat(3 << 20),
                { gzip: true });
            assert.equal((await s.files.read('big')).length, 3 << 20);
            await s.files.write('o', 'octets', { useOctetStream: true });
            assert.equal(await s.files.read('o'), 'octets');
            const listed = await s.files.list('/home/user/w');
            assert.deepEqual(listed.map((e) => [e.name, e.size]),
                [['é.csv', 5]]);
            assert.equal(await s.files.exists('one'), true);
            await s.files.rename('one', 'w/1');
            await s.files.remove('w');
            assert.equal(await s.files.exists('w/1'), false);
            await assert.rejects(s.files.read('w/1'), NotFoundError);
        });
    },

    async 'commands'() {
        await withServer(async (fail) => {
            const s = await Sandbox.create('base', { envs: { G: '1' } });
            const done = await s.commands.run('echo $G$O; pwd >&2',
                { cwd: '/tmp', envs: { O: '2' } });
            assert.equal(done.stdout, '12\n');
            assert.equal(done.stderr, '/tmp\n');
            await assert.rejects(s.commands.run('exit 3'),
                (e) => e instanceof CommandExitError && e.exitCode === 3);
            await assert.rejects(s.commands.run('sleep 300',
                { timeoutMs: 1000 }), TimeoutError);
            const cat = await s.commands.run('cat',
                { background: true, stdin: true });
            await s.commands.sendStdin(cat.pid, 'in\n');
            assert.ok((await s.commands.list()).some(
                (p) => p.pid === cat.pid));
            await s.commands.closeStdin(cat.pid);
            assert.equal((await cat.wait()).stdout, 'in\n');
            const sleeper = await s.commands.run('sleep 300',
                { background: true, user: 'root' });
            assert.equal(await sleeper.kill(), true);
            await assert.rejects(sleeper.wait());
            await fail({ words: 'Start', cut: 60 });
            await assert.rejects(s.commands.run('echo 1; sleep 1'));
            await fail({ words: 'Start', split: 1 });
            assert.equal((await s.commands.run('echo 1')).stdout, '1\n');
        });
    },

    async 'pause keeps memory'() {
        await withServer(async () => {
            const s = await Sandbox.create();
            await s.runCode('x = 41');
            await s.pause();
            assert.equal(await s.isRunning(), false);
            await s.connect();
            assert.equal((await s.runCode('x + 1')).text, '42');
        });
    },

    async 'cells'() {
        await withServer(async (fail) => {
            const s = await Sandbox.create({ envs: { G: '1' } });
            const done = await s.runCode(
                "import os, sys\nprint('é')\nprint(1, file=sys.stderr)\n" +
                "os.environ['G'] + os.environ['O']", { envs: { O: '2' } });
            assert.deepEqual(done.logs, {
                stdout: ['é\n'], stderr: ['1\n'] });
            assert.equal(done.text, '12');
            assert.equal((await s.runCode('1/0')).error.name,
                'ZeroDivisionError');
            const own = await s.createCodeContext({ cwd: '/tmp' });
            await s.runCode('y = 1', { context: own });
            assert.equal((await s.runCode('y', { context: own })).text, '1');
            assert.ok((await s.listCodeContexts()).some(
                (c) => c.id === own.id));
            await s.restartCodeContext(own);
            assert.equal((await s.runCode('y', { context: own })).error.name,
                'NameError');
            await s.removeCodeContext(own);
            await assert.rejects(s.runCode('1', { context: own }),
                NotFoundError);
            await assert.rejects(s.runCode('import time\ntime.sleep(300)',
                { timeoutMs: 1000 }), TimeoutError);
            await fail({ words: '/execute', split: 1 });
            assert.equal((await s.runCode("'é😀'")).text, 'é😀');
            await fail({ words: '/execute', status: 502, body: {
                sandboxId: 'i', message: 'not found', code: 502 } });
            await assert.rejects(s.runCode('1'), TimeoutError);
        });
    },

    async 'charts'() {
        await withServer(async () => {
            const s = await Sandbox.create();
            const done = await s.runCode(
                'import matplotlib.pyplot as plt\n' +
                'plt.plot([1, 2], [3, 4])\nplt.show()');
            if (done.error?.name === 'ModuleNotFoundError')
                return;
            assert.equal(done.results[0].chart.type, 'line');
            assert.deepEqual(done.results[0].chart.elements[0].points,
                [[1, 3], [2, 4]]);
            assert.ok(done.results[0].png.startsWith('iVBORw0KGgo'));
        });
    },
};

const names = Object.keys(tests);
let bad = 0;
console.log(`1..${names.length}`);
for (const [i, name] of names.entries()) {
    try {
        await tests[name]();
        console.log(`ok ${i + 1} - ${name}`);
    } catch (e) {
        bad++;
        console.log(`not ok ${i + 1} - ${name}`);
        console.log(String(e.stack).replace(/^/gm, '# '));
    }
}
process.exit(bad ? 1 : 0);
