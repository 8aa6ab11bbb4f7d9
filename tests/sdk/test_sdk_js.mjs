/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The vendor's JavaScript SDK, unmodified, against the fake service.
 * SDK_DIR is where the package was installed.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const sdkDir = process.env.SDK_DIR;
const require = createRequire(path.join(sdkDir, 'package.json'));
const entry = require.resolve('@anthropic-ai/sdk');
const Anthropic = (await import(pathToFileURL(entry))).default.default ??
    (await import(pathToFileURL(entry))).default;

const CODE = "n = 2**53 + 1\nprint('é', n)  # 😀";
const OPTIONS = {
    model: 'claude-opus-5-5',
    max_tokens: 32000,
    tools: [{
        name: 'run_python',
        description: 'Runs Python.',
        input_schema: {
            type: 'object',
            properties: { code: { type: 'string' } },
            required: ['code'],
        },
    }],
    system: [{
        type: 'text',
        text: 'Be brief.',
        cache_control: { type: 'ephemeral' },
    }],
    thinking: { type: 'adaptive', display: 'summarized' },
    output_config: { effort: 'low' },
};
const HI = { role: 'user', content: 'How many?' };

/*
 * Runs the fake with one list of script.py. Ends it in every case and hands
 * the violations it saw to the test.
 */
async function withServer(name, body) {
    const child = spawn('python3', [
        path.join(here, '..', 'fakes', 'claude_server.py'),
        path.join(here, 'script.py'), name,
    ], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: child.stdout })[
        Symbol.asyncIterator]();
    const url = (await lines.next()).value;
    const api = new Anthropic({ apiKey: 'sk-ant-test', baseURL: url });
    try {
        await body(api);
    } finally {
        child.stdin.end();
    }
    return JSON.parse((await lines.next()).value);
}

const ask = (api, messages) =>
    api.messages.stream({ ...OPTIONS, messages }).finalMessage();

const tests = {
    async version() {
        const pinned = readFileSync(path.join(here, 'versions'), 'utf8')
            .match(/^js=(.*)$/m)[1];
        const own = JSON.parse(readFileSync(
            path.join(sdkDir, 'package.json'), 'utf8')).version;
        assert.equal(own, pinned);
    },

    async toolUseWithThinking() {
        const violations = await withServer('TOOL_USE', async (api) => {
            const first = await ask(api, [HI]);
            assert.equal(first.stop_reason, 'tool_use');
            assert.deepEqual(first.content.map((b) => b.type),
                ['thinking', 'text', 'tool_use']);
            assert.equal(first.content[0].thinking,
                'The file has two columns.');
            assert.equal(first.content[1].text, 'I will look.');
            const call = first.content[2];
            assert.deepEqual(call.input, { code: CODE, n: 2 ** 53 - 1 });
            const second = await ask(api, [
                HI,
                { role: 'assistant', content: first.content },
                {
                    role: 'user',
                    content: [{
                        type: 'tool_result',
                        tool_use_id: call.id,
                        content: 'é 9007199254740993',
                    }],
                },
            ]);
            assert.equal(second.content[0].text,
                'Printed: é 9007199254740993');
            assert.equal(second.stop_reason, 'end_turn');
            assert.ok(second.usage.output_tokens > 0);
        });
        assert.deepEqual(violations, []);
    },

    async rateLimit() {
        const start = performance.now();
        const violations = await withServer('RATE_LIMIT', async (api) => {
            const message = await ask(api, [HI]);
            assert.equal(message.content[0].text, 'after 429');
        });
        assert.ok(performance.now() - start > 950);
        assert.deepEqual(violations, []);
    },

    async overloaded() {
        const violations = await withServer('OVERLOADED', async (api) => {
            const message = await ask(api, [HI]);
            assert.equal(message.content[0].text, 'after 529');
        });
        assert.deepEqual(violations, []);
    },

    async errorInTheStream() {
        const violations = await withServer('STREAM_ERROR', async (api) => {
            await assert.rejects(ask(api, [HI]), (e) => {
                assert.ok(e instanceof Anthropic.APIError);
                assert.equal(e.status, undefined);
                assert.equal(e.type, 'overloaded_error');
                return true;
            });
        });
        assert.deepEqual(violations, []);
    },

    async countTokens() {
        const violations = await withServer('COUNT', async (api) => {
            const { model, tools } = OPTIONS;
            const count = await api.messages.countTokens(
                { model, tools, messages: [HI] });
            assert.ok(count.input_tokens > 10);
            const ids = [];
            for await (const item of api.models.list({ limit: 5 })) {
                ids.push(item.id);
            }
            assert.ok(ids.length > 10 && ids.includes(model));
        });
        assert.deepEqual(violations, []);
    },

    async malformedHistory() {
        const violations = await withServer('MALFORMED', async (api) => {
            await assert.rejects(ask(api, [
                HI,
                {
                    role: 'assistant',
                    content: [{
                        type: 'tool_use',
                        id: 'toolu_x',
                        name: 'run_python',
                        input: { code: '1' },
                    }],
                },
                { role: 'user', content: 'go on' },
            ]), (e) => {
                assert.equal(e.status, 400);
                assert.equal(e.type, 'invalid_request_error');
                assert.match(e.message, /without `tool_result`/);
                return true;
            });
        });
        assert.equal(violations.length, 1);
    },

    async editedHistory() {
        const violations = await withServer('EDITED', async (api) => {
            const first = await ask(api, [HI]);
            await assert.rejects(ask(api, [
                { role: 'user', content: 'How many then?' },
                { role: 'assistant', content: first.content },
                { role: 'user', content: 'go on' },
            ]), /different conversation/);
        });
        assert.equal(violations.length, 1);
    },
};

const names = Object.keys(tests);
let failed = 0;
console.log(`1..${names.length}`);
for (const [i, name] of names.entries()) {
    try {
        await tests[name]();
        console.log(`ok ${i + 1} - js ${name}`);
    } catch (e) {
        failed += 1;
        console.log(`not ok ${i + 1} - js ${name}`);
        console.log(String(e.stack).replace(/^/gm, '# '));
    }
}
process.exitCode = failed ? 1 : 0;
