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
 * Runs the fake with one list of script.py. Ends it in every case; returns the
 * violations and requests that it saw.
 */
async function withServer(name, body, options = {}) {
    const child = spawn('python3', [
        path.join(here, '..', 'fakes', 'claude_server.py'), '--requests',
        path.join(here, 'script.py'), name,
    ], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: child.stdout })[
        Symbol.asyncIterator]();
    const url = (await lines.next()).value;
    const api = new Anthropic({
        apiKey: 'sk-ant-test', baseURL: url, ...options,
    });
    try {
        await body(api);
    } finally {
        child.stdin.end();
    }
    const violations = JSON.parse((await lines.next()).value);
    return { violations, requests: JSON.parse((await lines.next()).value) };
}

/* The same, where no rule may be broken; returns the requests. */
async function serve(name, body, options) {
    const { violations, requests } = await withServer(name, body, options);
    assert.deepEqual(violations, []);
    return requests;
}

const ask = (api, messages) =>
    api.messages.stream({ ...OPTIONS, messages }).finalMessage();
const said = (message) => ({ role: 'assistant', content: message.content });
const results = (...pairs) => ({
    role: 'user',
    content: pairs.map(([id, output]) => ({
        type: 'tool_result', tool_use_id: id, content: output,
    })),
});
const kinds = (message) => message.content.map((b) => b.type);
const calls = (message) =>
    message.content.filter((b) => b.type === 'tool_use');
const tries = (requests) =>
    requests.map((r) => r.headers['x-stainless-retry-count']);
const gap = (requests, i) => requests[i + 1].time - requests[i].time;

/* The error that a promise ends with. */
async function failure(promise) {
    try {
        await promise;
    } catch (e) {
        return e;
    }
    throw new assert.AssertionError({ message: 'nothing was thrown' });
}

const answers = (word) => async (api) => {
    assert.equal((await ask(api, [HI])).content[0].text, word);
};
const isRefused = (check) => async (api) => check(await failure(
    ask(api, [HI])));

const streams = {
    async version() {
        const pinned = readFileSync(path.join(here, 'versions'), 'utf8')
            .match(/^js=(.*)$/m)[1];
        const own = JSON.parse(readFileSync(
            path.join(sdkDir, 'package.json'), 'utf8')).version;
        assert.equal(own, pinned);
    },

    async streaming() {
        const [request] = await serve('STREAM', async (api) => {
            const pieces = [];
            const stream = api.messages.stream({ ...OPTIONS, messages: [HI] });
            stream.on('text', (text) => pieces.push(text));
            const message = await stream.finalMessage();
            assert.deepEqual(pieces,
                ['Lisbon is ', 'the capital of ', 'Portugal 🇵🇹.']);
            assert.equal(message.content[0].text, pieces.join(''));
            assert.equal(message.stop_reason, 'end_turn');
            assert.equal(message.usage.output_tokens, 16);
            assert.equal(message.usage.cache_read_input_tokens, 1830);
            assert.match(stream.request_id, /^req_fake/);
        });
        assert.equal(request.path, '/v1/messages');
        assert.equal(request.body.stream, true);
        assert.equal(request.headers.authorization, 'Bearer sk-ant-test');
        assert.equal(request.headers['anthropic-version'], '2026-10-21');
    },

    async singleBytes() {
        await serve('BYTES', answers('é and 😀 in single bytes'));
    },

    async withoutAStream() {
        await serve('WHOLE', async (api) => {
            const message = await api.messages.create(
                { ...OPTIONS, max_tokens: 1000, messages: [HI] });
            assert.deepEqual(kinds(message), ['text', 'tool_use']);
            assert.equal(message.stop_reason, 'tool_use');
        });
    },

    async whatNobodyKnows() {
        await serve('ODD', async (api) => {
            const message = await ask(api, [HI]);
            assert.deepEqual(kinds(message), ['text', 'of_tomorrow']);
            assert.equal(message.stop_reason, 'of_tomorrow');
        });
    },

    async withoutNulls() {
        await serve('LEAN', answers('Without nulls.'));
    },

    async recordedStreams() {
        await serve('RECORDED', async (api) => {
            const seen = [];
            let message;
            for (let i = 0; i < 4; i++) {
                message = await ask(api, [HI]);
                seen.push([message.stop_reason, ...kinds(message)]);
            }
            assert.deepEqual(seen, [
                ['end_turn', 'text'], ['tool_use', 'text', 'tool_use'],
                ['tool_use', 'tool_use', 'tool_use'],
                ['tool_use', 'thinking', 'tool_use'],
            ]);
            assert.ok(message.content[0].signature);
            assert.ok(message.content[1].input.code);
            const e = await failure(ask(api, [HI]));
            assert.equal(e.type, 'overloaded_error');
            message = await ask(api, [HI]);
            assert.equal(message.stop_reason, 'max_tokens');
            assert.deepEqual(kinds(message), ['text', 'tool_use']);
        }, { maxRetries: 0 });
    },
};

const tools = {
    async toolUseWithThinking() {
        await serve('TOOL_USE', async (api) => {
            const first = await ask(api, [HI]);
            assert.equal(first.stop_reason, 'tool_use');
            assert.deepEqual(kinds(first), ['thinking', 'text', 'tool_use']);
            assert.equal(first.content[0].thinking,
                'The file has two columns.');
            assert.equal(first.content[1].text, 'I will look.');
            const call = first.content[2];
            assert.deepEqual(call.input, { code: CODE, n: 2 ** 53 - 1 });
            const second = await ask(api, [HI, said(first),
                results([call.id, 'é 9007199254740993'])]);
            assert.equal(second.content[0].text,
                'Printed: é 9007199254740993');
            assert.equal(second.stop_reason, 'end_turn');
            assert.ok(second.usage.output_tokens > 0);
        });
    },

    async parallelCalls() {
        await serve('PARALLEL', async (api) => {
            const first = await ask(api, [HI]);
            assert.deepEqual(calls(first).map((c) => c.input), [
                { code: 'print(2**64)' }, { code: "print('two')" }, {}, {},
            ]);
            assert.equal(new Set(calls(first).map((c) => c.id)).size, 4);
            const second = await ask(api, [HI, said(first),
                results(...calls(first).map((c, i) => [c.id, `${i}`]))]);
            assert.equal(second.content[0].text, 'Printed: 0 1 2 3');
        });
    },

    async aCallWithoutItsResult() {
        const { violations } = await withServer('PARALLEL', async (api) => {
            const first = await ask(api, [HI]);
            const [a, b, c, d] = calls(first);
            const e = await failure(ask(api, [HI, said(first),
                results([a.id, 'x'], [b.id, 'x'], [c.id, 'x'])]));
            assert.equal(e.status, 400);
            assert.ok(e.message.includes(d.id), e.message);
        });
        assert.equal(violations.length, 1);
    },

    async thinkingIsSentBack() {
        await serve('THINKING', async (api) => {
            const talk = [];
            for (const [n, word] of
                ['One.', 'Two.', 'Three.', 'Four.'].entries()) {
                talk.push({ role: 'user', content: `question ${n}` });
                const message = await ask(api, talk);
                assert.equal(message.content.at(-1).text, word);
                talk.push(said(message));
            }
            assert.deepEqual([1, 3, 5, 7].map((i) => kinds(talk[i])), [
                ['thinking', 'text'], ['thinking', 'text'],
                ['redacted_thinking', 'thinking', 'text'], ['text'],
            ]);
            assert.equal(talk[1].content[0].thinking, 'A first thought.');
            assert.equal(talk[3].content[0].thinking, '');
            assert.ok(talk[3].content[0].signature);
        });
    },
};

const faults = {
    async rateLimit() {
        const asked = await serve('RATE_LIMIT', answers('after 429'));
        assert.deepEqual(tries(asked), ['0', '1']);
        assert.ok(gap(asked, 0) >= 1.95 && gap(asked, 0) < 8);
    },

    async rateLimitInMilliseconds() {
        const asked = await serve('RATE_LIMIT_MS', answers('after 300 ms'));
        assert.ok(gap(asked, 0) >= 0.28 && gap(asked, 0) < 4);
    },

    /* Tried again to no purpose: a client can do better. */
    async spendLimit() {
        const asked = await serve('SPENT_ALWAYS', isRefused((e) => {
            assert.ok(e instanceof Anthropic.RateLimitError);
            assert.equal(e.error.error.details.error_code,
                'enforced_spend_limit_reached');
        }));
        assert.deepEqual(tries(asked), ['0', '1', '2']);
    },

    async overloadedOnce() {
        const asked = await serve('OVERLOADED', answers('after 529'));
        assert.deepEqual(tries(asked), ['0', '1']);
    },

    async overloadedAlways() {
        const asked = await serve('OVERLOADED_ALWAYS', isRefused((e) => {
            assert.equal(e.status, 529);
            assert.equal(e.type, 'overloaded_error');
            assert.match(e.requestID, /^req_fake/);
        }));
        assert.deepEqual(tries(asked), ['0', '1', '2']);
        assert.ok(gap(asked, 0) >= 0.37 && gap(asked, 1) >= 0.74);
    },

    async whatIsTriedAgain() {
        assert.equal((await serve('TRIED_AGAIN',
            answers('after two'))).length, 3);
        assert.equal((await serve('TOLD_TO_STOP', isRefused((e) => {
            assert.equal(e.status, 529);
        }))).length, 1);
        assert.equal((await serve('TOLD_TO_RETRY',
            answers('after 400'))).length, 2);
    },

    async whatIsNotTriedAgain() {
        const seen = [];
        const asked = await serve('REFUSED', async (api) => {
            for (let i = 0; i < 6; i++) {
                seen.push((await failure(ask(api, [HI]))).status);
            }
        });
        assert.deepEqual(seen, [400, 401, 402, 403, 404, 413]);
        assert.deepEqual(tries(asked), Array(6).fill('0'));
    },

    async aResetBeforeTheHead() {
        const asked = await serve('RESET_FIRST', answers('after a reset'));
        assert.deepEqual(tries(asked), ['0', '1']);
    },

    async aResetInTheStream() {
        const asked = await serve('RESET_LATER', isRefused(() => {}));
        assert.equal(asked.length, 1);
    },

    async errorInTheStream() {
        const asked = await serve('STREAM_ERROR', isRefused((e) => {
            assert.ok(e instanceof Anthropic.APIError);
            assert.equal(e.status, undefined);
            assert.equal(e.type, 'overloaded_error');
        }));
        assert.equal(asked.length, 1);
    },

    async anEarlyEnd() {
        const asked = await serve('EARLY_END', isRefused((e) => {
            assert.match(e.message, /stream ended without/);
        }));
        assert.equal(asked.length, 1);
    },

    async silence() {
        const asked = await serve('HANG_FIRST', answers('after a hang'),
            { timeout: 700 });
        assert.equal(asked.length, 2);
    },
};

const others = {
    async countTokens() {
        const [request] = await serve('COUNT', async (api) => {
            const { model, tools: list } = OPTIONS;
            const count = await api.messages.countTokens(
                { model, tools: list, messages: [HI] });
            assert.ok(count.input_tokens > 10);
        });
        assert.equal(request.path, '/v1/messages/count_tokens');
        assert.ok(!('stream' in request.body));
    },

    async models() {
        const ids = [];
        const { requests, violations } = await withServer('COUNT',
            async (api) => {
                for await (const item of api.models.list({ limit: 5 })) {
                    ids.push(item.id);
                }
                const model = await api.models.retrieve(OPTIONS.model);
                assert.equal(model.lifecycle, 'active');
                assert.equal(model.max_input_tokens, 1000000);
                const e = await failure(api.models.retrieve('claude-none'));
                assert.equal(e.status, 404);
            });
        assert.ok(ids.length > 10 && ids.includes(OPTIONS.model));
        assert.equal(new Set(ids).size, ids.length);
        assert.equal(requests.length, Math.ceil(ids.length / 5) + 2);
        assert.match(requests[1].query, /after_id/);
        assert.equal(violations.length, 1);
    },

    async malformedHistory() {
        const { violations } = await withServer('MALFORMED', async (api) => {
            const e = await failure(ask(api, [
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
            ]));
            assert.equal(e.status, 400);
            assert.equal(e.type, 'invalid_request_error');
            assert.match(e.message, /without `tool_result`/);
        });
        assert.equal(violations.length, 1);
    },

    async editedHistory() {
        const { violations } = await withServer('EDITED', async (api) => {
            const first = await ask(api, [HI]);
            await assert.rejects(ask(api, [
                { role: 'user', content: 'How many then?' },
                said(first),
                { role: 'user', content: 'go on' },
            ]), /different conversation/);
        });
        assert.equal(violations.length, 1);
    },
};

const tests = { ...streams, ...tools, ...faults, ...others };
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
