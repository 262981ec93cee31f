/* The page of weft serve: the curve of a run while it learns, and a playground on its newest
 * checkpoint. Routes and forms: docs/serve.md. Nothing is stored but the choice of light or dark,
 * and a key for as long as the tab is open. */
'use strict';

const $ = id => document.getElementById(id);

/* An element: make('p', {class: 'x'}, 'text', child, ...). */
function make(name, attributes = {}, ...children) {
    const svg = /^(svg|g|path|circle|text|line)$/.test(name);
    const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', name)
                  : document.createElement(name);
    for (const [key, value] of Object.entries(attributes))
        if (value !== undefined && value !== false) e.setAttribute(key, value === true ? '' : value);
    e.append(...children);
    return e;
}

/* 12.3M */
function count(x) {
    if (x === null || x === undefined || !isFinite(x)) return '';
    const unit = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
    let u = 0;
    while (Math.abs(x) >= 999.5 && u < 6) { x /= 1000; u++; }
    return (u || !Number.isInteger(x) ? String(Number(x.toPrecision(3))) : String(x)) + unit[u];
}

function bytes(x) {
    const unit = ['B', 'KiB', 'MiB', 'GiB'];
    let u = 0;
    while (x >= 1024 && u < 3) { x /= 1024; u++; }
    return Number(x.toPrecision(3)) + ' ' + unit[u];
}

function duration(s) {
    s = Math.round(s);
    if (s < 60) return s + 's';
    if (s < 3600) return Math.floor(s / 60) + 'm' + String(s % 60).padStart(2, '0') + 's';
    return Math.floor(s / 3600) + 'h' + String(Math.floor(s / 60) % 60).padStart(2, '0') + 'm';
}

/* ---- the server ---- */

const server = {
    key: sessionStorage.getItem('weft-key') || '',
    headers() { return this.key ? {Authorization: 'Bearer ' + this.key} : {}; },
    query(o) {
        const q = new URLSearchParams(o);
        if (this.key) q.set('key', this.key);
        return '?' + q;
    },
};

function askKey() {
    return new Promise(done => {
        const d = $('key');
        d.addEventListener('close', () => {
            server.key = $('key-text').value;
            sessionStorage.setItem('weft-key', server.key);
            done();
        }, {once: true});
        d.showModal();
    });
}

/* A response, or an Error with what the server said. */
async function call(path, options = {}) {
    const r = await fetch(path, {...options, headers: {...server.headers(), ...options.headers}});
    if (r.status === 401) {
        await askKey();
        return call(path, options);
    }
    if (r.ok) return r;
    let said = r.status + ' ' + r.statusText;
    try { said = (await r.json()).error.message; } catch (e) { /* no JSON: the status says it */ }
    throw new Error(said);
}

/* The data of a stream of server-sent events, one after the other. */
async function* events(response) {
    const reader = response.body.getReader(), decode = new TextDecoder();
    let rest = '';
    for (;;) {
        const {done, value} = await reader.read();
        if (done) return;
        rest += decode.decode(value, {stream: true});
        const parts = rest.split('\n\n');
        rest = parts.pop();
        for (const part of parts) {
            const type = /^event: (.*)$/m.exec(part), data = /^data: (.*)$/m.exec(part);
            if (data) yield {type: type ? type[1] : 'message', data: data[1]};
        }
    }
}

/* ---- the log ---- */

const COLUMNS = ['step', 'tokens', 'flops', 'seconds', 'loss', 'val_loss', 'val_bpb', 'lr', 'grad_norm',
                 'tok_s', 'window'];

function newLog() {
    const log = {n: 0, samples: [], head: null};
    for (const c of COLUMNS) log[c] = [];
    return log;
}

function takeLine(log, text) {
    let line;
    try { line = JSON.parse(text); } catch (e) { return; }
    if (line.settings) log.head = line;
    else if ('sample' in line) log.samples.push({step: line.sample, text: line.text});
    else if ('ms' in line) {
        const before = log.n ? log.seconds[log.n - 1] : 0;
        for (const c of COLUMNS) log[c].push(line[c] === undefined ? null : line[c]);
        log.seconds[log.n++] = before + (line.ms || 0) / 1000;
    }
}

function last(column) {
    for (let i = column.length - 1; i >= 0; i--)
        if (column[i] !== null) return column[i];
    return null;
}

/* Points (x, y) of a log: means over at most `most` stretches of steps. */
function points(log, x, y, most) {
    const at = [];
    for (let i = 0; i < log.n; i++)
        if (log[x][i] !== null && log[y][i] !== null) at.push(i);
    const n = Math.min(most, at.length), out = [];
    for (let k = 0; k < n; k++) {
        const from = Math.floor(k * at.length / n), to = Math.floor((k + 1) * at.length / n);
        let sx = 0, sy = 0;
        for (let i = from; i < to; i++) { sx += log[x][at[i]]; sy += log[y][at[i]]; }
        out.push({x: sx / (to - from), y: sy / (to - from)});
    }
    return out;
}

/* ---- the chart ---- */

const AXES = {
    steps: {column: 'step', label: 'steps'},
    tokens: {column: 'tokens', label: 'tokens'},
    FLOPs: {column: 'flops', label: 'training FLOPs'},
    seconds: {column: 'seconds', label: 'seconds of training steps'},
};
const QUANTITIES = {
    'bits per byte': {column: 'val_bpb', label: 'validation, bits per byte', marks: true},
    loss: {column: 'loss', label: 'training loss, nats per token', log: true, noisy: true},
    'learning rate': {column: 'lr', label: 'learning rate'},
    gradient: {column: 'grad_norm', label: 'norm of the gradient', log: true, noisy: true},
    speed: {column: 'tok_s', label: 'tokens a second', noisy: true},
};

const state = {
    served: null, logs: new Map(), x: 'steps', y: 'bits per byte', cross: null, drawn: null, alone: null, lost: false,
};

function ticks(lo, hi, about) {
    const raw = (hi - lo) / about, ten = 10 ** Math.floor(Math.log10(raw)), share = raw / ten;
    const step = ten * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10), at = [];
    for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + 1e-9 * step && at.length < 20; i++)
        at.push(i * step + 0);
    return at;
}

function tickText(v) {
    return Math.abs(v) >= 1e4 ? count(v) : small(v);
}

function small(v) {
    return v !== 0 && Math.abs(v) < 1e-3 ? v.toExponential(1) : String(Number(v.toPrecision(3)));
}

/* Names of lines keep clear of one another: from the top down, then from the foot up. */
function spread(names, bottom) {
    names.sort((a, b) => a.y - b.y);
    names.forEach((n, i) => { n.at = i ? Math.max(n.y, names[i - 1].at + 14) : n.y; });
    for (let i = names.length - 1; i >= 0; i--)
        names[i].at = Math.min(names[i].at, i === names.length - 1 ? bottom : names[i + 1].at - 14);
}

function yardsticks() {
    const s = state.served;
    return [['zstd -19', s.zstd_bpb], ['no model below', s.floor_bpb]].filter(l => l[1] > 0);
}

/* The steps under the means; under validation the training loss in bits per byte, at the validation
 * text's tokens per byte. Among several models there is none. */
function thinLine(log, x, y) {
    if (state.served.models.length > 1 || !(y.noisy || y.marks)) return [];
    if (y.noisy) return points(log, x.column, y.column, 800);
    const bits = last(log.val_bpb), ratio = bits && bits / last(log.val_loss);
    return ratio ? points(log, x.column, 'loss', 300).map(p => ({x: p.x, y: p.y * ratio})) : [];
}

/* The lines of every model: thin steps, thick means. */
function seriesOf(x, y) {
    return state.served.models.map((m, i) => {
        const log = state.logs.get(m.id);
        if (!log || !log.n) return null;
        return {
            model: m, log, colour: 's' + i % 10,
            main: points(log, x.column, y.column, y.noisy ? 100 : 400),
            thin: thinLine(log, x, y),
        };
    }).filter(s => s && s.main.length);
}

function draw() {
    state.drawn = null;
    const x = AXES[state.x], box = $('chart');
    let y = QUANTITIES[state.y], series = seriesOf(x, y);
    if (!series.length && y.marks) {        // nothing is validated yet
        y = QUANTITIES.loss;
        series = seriesOf(x, y);
    }
    const W = Math.max(box.clientWidth, 280), H = W < 560 ? 260 : 320, top = 24, foot = 44;
    const svg = make('svg', {viewBox: `0 0 ${W} ${H}`, width: W, height: H});
    box.replaceChildren(svg);
    box.setAttribute('aria-label', `${y.label} against ${x.label}`);
    if (!series.length) {
        svg.append(make('text', {x: W / 2, y: H / 2, 'text-anchor': 'middle'}, 'nothing logged yet'));
        $('readout').textContent = '';
        return;
    }
    const named = series.length > 1 ? series : [], longest = Math.max(0, ...named.map(s => s.model.id.length));
    const end = named.length ? Math.min(20 + 6.8 * longest, W * 0.3) : 12, left = 46, right = W - end;
    const put = v => y.log ? Math.log10(v) : v, flat = series.flatMap(s => s.main.concat(s.thin));
    const lines = y.marks ? yardsticks() : [], ruling = y.marks ? series.flatMap(s => s.main) : flat;
    const ys = ruling.map(p => p.y).concat(lines.map(l => l[1])).filter(v => !y.log || v > 0);
    const fold = (list, f, start) => list.reduce((a, b) => f(a, b), start);
    const x1 = fold(flat, (a, p) => Math.max(a, p.x), 1e-9);
    let y0 = put(fold(ys, (a, b) => Math.min(a, b), Infinity)), y1 = put(fold(ys, (a, b) => Math.max(a, b), -Infinity));
    const pad = (y1 - y0) * 0.06 || Math.abs(y0) * 0.1 || 1;
    y0 -= pad; y1 += pad;
    const px = v => left + (right - left) * v / x1, py = v => H - foot - (H - foot - top) * (put(v) - y0) / (y1 - y0);
    const low = y.log ? 10 ** y0 : y0, high = y.log ? 10 ** y1 : y1;

    for (const v of ticks(0, x1, W < 560 ? 4 : 6))
        svg.append(make('line', {class: 'grid', x1: px(v), x2: px(v), y1: top, y2: H - foot}),
                   make('text', {x: px(v), y: H - foot + 16, 'text-anchor': 'middle'}, tickText(v)));
    for (const v of ticks(low, high, 5))
        svg.append(make('line', {class: 'grid', x1: left, x2: right, y1: py(v), y2: py(v)}),
                   make('text', {x: left - 6, y: py(v) + 4, 'text-anchor': 'end'}, tickText(v)));
    svg.append(make('text', {x: 0, y: 13}, y.label + (y.marks && series[0].thin.length ? '; thin: training' : '')),
               make('text', {x: right, y: H - 8, 'text-anchor': 'end'}, x.label));
    for (const [name, v] of lines)
        svg.append(make('line', {class: 'yard', x1: left, x2: right, y1: py(v), y2: py(v)}));
    const path = list => list.map((p, i) => (i ? 'L' : 'M') + px(p.x).toFixed(1) + ' ' + py(p.y).toFixed(1)).join('');
    for (const s of series) {
        const seen = s.thin.filter(p => put(p.y) <= y1 && put(p.y) >= y0);
        if (seen.length) svg.append(make('path', {class: 'line thin ' + s.colour, d: path(seen)}));
        svg.append(make('path', {class: 'line ' + s.colour, d: path(s.main)}));
        if (y.marks && s.main.length <= 60)
            for (const p of s.main) svg.append(make('circle', {class: s.colour, cx: px(p.x), cy: py(p.y), r: 2.8}));
    }
    const firstY = py(series[0].main[0].y);
    for (const [name, v] of lines) {        // where the first curve is farther away
        const near = Math.abs(py(last(series[0].main.map(p => p.y))) - py(v) + 5), far = Math.abs(firstY - py(v) + 5);
        const side = series[0].main[0].x > x1 / 3 || far > near;
        svg.append(make('text', {class: 'halo', x: side ? left + 6 : right - 4, y: py(v) - 5,
                                 'text-anchor': side ? 'start' : 'end'}, `${name} ${Number(v.toPrecision(3))}`));
    }
    svg.append(make('path', {class: 'frame', d: `M${left} ${top}V${H - foot}H${right}`}));
    const names = named.map(s => ({s, y: py(s.main[s.main.length - 1].y), x: px(s.main[s.main.length - 1].x)}));
    spread(names, H - foot);
    for (const n of names)
        svg.append(make('path', {class: 'line leader ' + n.s.colour, d: `M${n.x + 4} ${n.y}L${right + 12} ${n.at}`}),
                   make('text', {class: 'name', x: right + 15, y: n.at + 4}, n.s.model.id.length > 22 ? n.s.model.id.slice(0, 21) + '\u2026' : n.s.model.id));
    state.drawn = {svg, px, py, x, y, series, left, right, x1, top, bottom: H - foot};
    cross();
}

/* The vertical line at state.cross (a value of x, null: the end) and what the log says there. */
function cross() {
    const d = state.drawn;
    if (!d) return;
    d.svg.querySelector('.cross')?.remove();
    if (state.cross !== null)
        d.svg.append(make('line', {class: 'cross', x1: d.px(state.cross), x2: d.px(state.cross), y1: d.top, y2: d.bottom}));
    const said = d.series.map(s => {
        const column = s.log[d.x.column];
        let i = s.log.n - 1;
        if (state.cross !== null)
            for (i = 0; i < s.log.n - 1 && column[i] < state.cross;) i++;
        const val = s.log.val_bpb.slice(0, i + 1), v = last(val);
        const bits = v === null ? '' : `${v.toFixed(3)} bits per byte`;
        if (d.series.length > 1) return `${s.model.id} ${bits || 'not validated'}`;
        const loss = s.log.loss[i];
        return [`step ${s.log.step[i]}`, bits, loss === null ? '' : `loss ${loss.toFixed(3)}`,
                `lr ${small(s.log.lr[i] || 0)}`, `${count(s.log.tok_s[i])} tok/s`]
            .filter(Boolean).join(', ');
    });
    $('readout').textContent = said.join(';  ');
}

function pointAt(clientX) {
    const d = state.drawn;
    if (!d) return;
    const x = clientX - $('chart').getBoundingClientRect().left;
    state.cross = Math.min(Math.max((x - d.left) / (d.right - d.left), 0), 1) * d.x1;
    cross();
}

$('chart').addEventListener('pointermove', e => pointAt(e.clientX));
$('chart').addEventListener('pointerleave', () => { state.cross = null; cross(); });
$('chart').addEventListener('keydown', e => {
    const d = state.drawn, by = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    if (e.key === 'Escape') state.cross = null;
    else if (d && by) state.cross = Math.min(Math.max((state.cross ?? d.x1) + by * d.x1 / 50, 0), d.x1);
    else return;
    e.preventDefault();
    cross();
});

let waiting = false;
function redraw() {     // at most four times a second
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; if (!$('learning').hidden) { draw(); tell(); } }, 250);
}
addEventListener('resize', redraw);

function choices(id, of, key) {
    for (const name of Object.keys(of)) {
        const input = make('input', {type: 'radio', name: id, value: name, checked: name === state[key]});
        input.addEventListener('change', () => { state[key] = name; state.cross = null; draw(); });
        $(id).append(make('label', {}, input, make('span', {}, name)));
    }
}

/* ---- what is said beside the chart ---- */

function tell() {
    const s = state.served, log = state.logs.get(s.models[0]?.id), facts = [];
    $('name').textContent = s.name;
    document.title = s.name + ' - weft';
    const m = s.models[0] || {};
    const what = s.kind === 'compare' ? `${s.models.length} architectures` :
        m.arch || log?.head?.settings.mixers || '';
    $('state').replaceChildren(what + (what ? ', ' : ''), s.training ? make('span', {class: 'live'}, 'training') :
        s.kind === 'compare' ? 'compared' : m.step !== null && m.step !== undefined ? `step ${m.step}` : 'no checkpoint yet');
    if (state.lost) $('state').replaceChildren(what + (what ? ', ' : ''), 'the server does not answer');
    $('version').textContent = (s.version || '').split(' -')[0];       // not its flags
    if (s.kind !== 'compare' && log && log.n) {
        const bits = last(log.val_bpb);
        facts.push(['step', String(last(log.step))], ['validation, bits/byte', bits === null ? 'not yet' : bits.toFixed(3)],
                   ['loss, nats/token', (last(log.loss) ?? NaN).toFixed(3)], ['tokens', count(last(log.tokens))],
                   ['FLOPs', count(last(log.flops))], ['training', duration(last(log.seconds))],
                   ['tokens/s', count(last(log.tok_s))], ['parameters', count(m.parameters ?? log.head?.parameters)]);
    }
    $('facts').replaceChildren(...facts.map(([a, b]) => make('div', {}, make('dt', {}, a), make('dd', {}, b))));
    if (s.kind === 'compare') tellArchitectures(s);
    else tellSamples(log);
}

function tellSamples(log) {
    const list = log ? log.samples.slice().reverse() : [], box = $('aside-body');
    $('aside').hidden = !list.length;
    if ($('beside').classList.toggle('alone', !list.length) !== state.alone) {
        state.alone = !list.length;
        redraw();
    }
    $('aside-name').textContent = 'What it writes, as it learns';
    if (box.dataset.n === String(list.length)) return;
    box.dataset.n = list.length;
    box.replaceChildren(...list.map(s =>
        make('div', {class: 'sample'}, make('b', {}, `step ${s.step}`), make('p', {}, s.text.trim()))));
}

function tellArchitectures(s) {
    const rows = s.models.map((m, i) => make('tr', {},
        make('td', {}, make('span', {class: 'swatch s' + i % 10}), make('span', {title: m.arch || ''}, m.id)),
        make('td', {}, bitsOf(m)), make('td', {}, m.parameters ? count(m.parameters) : ''),
        make('td', {}, m.state_bytes ? bytes(m.state_bytes) : '')));
    $('aside-name').textContent = 'Architectures';
    $('aside-body').replaceChildren(make('table', {}, make('tr', {},
        ...['', 'bits/byte', 'params', 'state'].map(t => make('th', {}, t))), ...rows));
}

function bitsOf(m) {
    const log = state.logs.get(m.id), v = m.val_bpb ?? (log ? last(log.val_bpb) : null);
    return v === null || v === undefined ? '' : v.toFixed(3);
}

/* ---- following ---- */

function takeServed(s) {
    state.served = s;
    $('learning').hidden = s.kind === 'checkpoint';
    $('samples-label').hidden = s.kind === 'compare';
    $('playground-name').textContent = s.kind === 'compare' ? 'One prompt, every architecture' : 'Playground';
    const ready = s.models.some(m => m.checkpoint);
    $('write').disabled = !ready;
    if (!ready) say('The first checkpoint is not written yet; what comes before it can be watched above.');
    else if ($('status').textContent.startsWith('The first checkpoint')) say('');
    tell();
    redraw();
}

/* One stream for a run, open as long as the page is. */
function follow(id) {
    const source = new EventSource('/events' + server.query({model: id}));
    let log = newLog();
    state.logs.set(id, log);
    source.addEventListener('message', e => { takeLine(log, e.data); redraw(); });
    source.addEventListener('reset', () => { state.logs.set(id, log = newLog()); });
    source.addEventListener('error', () => { state.lost = true; tell(); });     // it tries again by itself
    source.addEventListener('open', () => { state.lost = false; tell(); });
    source.addEventListener('served', e => takeServed(JSON.parse(e.data)));
}

/* The logs of a comparison, one after the other: a browser keeps few connections to a server. A
 * stream that has been silent for half a second has told all there is. */
async function catchUp(models) {
    for (const m of models) {
        const stop = new AbortController(), log = newLog();
        let quiet = setTimeout(() => stop.abort(), 3000);
        try {
            const r = await call('/events' + server.query({model: m.id}), {signal: stop.signal});
            for await (const e of events(r)) {
                clearTimeout(quiet);
                quiet = setTimeout(() => stop.abort(), 500);
                if (e.type === 'message') takeLine(log, e.data);
            }
        } catch (e) {
            if (e.name !== 'AbortError') throw e;
        } finally {
            clearTimeout(quiet);
        }
        state.logs.set(m.id, log);
        redraw();
    }
}

/* ---- the playground ---- */

const ALTERNATIVES = 10, TOGETHER = 4;
const eos = new Map();          // of each model
let columns = [], running = new Set();

function say(text, bad) {
    $('status').textContent = text;
    $('status').classList.toggle('bad', Boolean(bad));
}

async function eosOf(model) {
    if (!eos.has(model)) {
        const r = await call('/tokenizer_info' + server.query({model}));
        eos.set(model, (await r.json()).eos_id);
    }
    return eos.get(model);
}

/* POST /v1/completions as a stream; each(choice, model) for every piece of it. */
async function complete(body, each) {
    const stop = new AbortController();
    running.add(stop);
    $('stop').hidden = false;
    try {
        const r = await call('/v1/completions', {
            method: 'POST', signal: stop.signal, headers: {'Content-Type': 'application/json'},
            body: JSON.stringify({...body, logprobs: ALTERNATIVES, stream: true}),
        });
        for await (const e of events(r)) {
            if (e.data === '[DONE]') break;
            const piece = JSON.parse(e.data);
            if (piece.error) throw new Error(piece.error.message);
            for (const c of piece.choices || []) each(c, piece.model);
        }
        return true;
    } catch (e) {
        if (e.name !== 'AbortError') say(e.message, true);
        return false;
    } finally {
        running.delete(stop);
        $('stop').hidden = running.size > 0 ? false : true;
    }
}

function settings() {
    const o = {};
    for (const k of ['max_tokens', 'temperature', 'top_p', 'top_k']) o[k] = Number($(k).value);
    o.seed = $('seed').value === '' ? Math.floor(Math.random() * 2 ** 31) : Number($('seed').value);
    return o;
}

function newColumn(title, model) {
    const c = {
        model, tokens: [], turn: 0, given: 0, served: '', bare: false,
        box: make('div', {class: 'tokens', role: 'group', 'aria-label': title}),
        numbers: make('span', {class: 'numbers'}),
    };
    c.element = make('article', {class: 'text'}, make('h3', {}, make('span', {}, title), c.numbers), c.box);
    return c;
}

function surprise(nats) {
    return nats === null ? 'n0' : 'n' + Math.max(0, Math.min(7, Math.floor(nats)));
}

/* What a column shows of token i. */
function tokenElement(c, i) {
    const t = c.tokens[i], over = t.end;
    const title = t.nats === null ? 'the beginning' :
        `${t.nats.toFixed(2)} nats, ${(100 * Math.exp(-t.nats)).toPrecision(2)} %`;
    return make('span', {
        class: ['t', surprise(t.nats), i < c.given && 'given', t.chosen && 'chosen', over && 'end'].filter(Boolean).join(' '),
        role: 'button', tabindex: i ? -1 : 0, title, 'data-i': i,
    }, over ? ' [end] ' : t.text);
}

function addToken(c, t) {
    c.tokens.push(t);
    c.box.append(tokenElement(c, c.tokens.length - 1));
}

function numbers(c) {
    const of = c.tokens.slice(c.given).filter(t => t.nats !== null), n = of.length;
    const mean = of.reduce((a, t) => a + t.nats, 0) / n;
    c.numbers.textContent = n ? `${n} tokens, ${mean.toFixed(2)} nats each` : '';
    c.numbers.title = c.served;
}

/* A piece of the stream into its column; turn: a column that was sent elsewhere takes no more. */
function take(c, turn, choice, model) {
    const l = choice.logprobs;
    if (c.turn !== turn) return;
    c.served = model;
    for (let i = 0; l && i < l.tokens.length; i++) {
        const at = l.token_logprobs[i], ids = l.top_ids[i] || [];
        if (!c.tokens.length && at === null && l.token_ids[i] === eos.get(c.model)) continue;
        if (!c.tokens.length) c.bare = at === null;     // the model's opening: no end of a text is before it
        addToken(c, {
            id: l.token_ids[i], text: l.tokens[i], nats: at === null ? null : -at,
            end: l.token_ids[i] === eos.get(c.model),
            others: ids.map((id, k) => ({id, text: l.top_tokens[i][k], nats: -l.top_values[i][k]})),
        });
    }
    if (choice.finish_reason) c.box.classList.remove('writing');
    numbers(c);
}

/* Let these functions run, a few at a time. */
async function inTurns(jobs, most) {
    const left = jobs.slice();
    const worker = async () => { while (left.length) await left.shift()(); };
    await Promise.all(Array.from({length: most}, worker));
}

function stopAll() {
    for (const r of running) r.abort();
    for (const c of columns) { c.turn++; c.box.classList.remove('writing'); }
}

/* How many tokens a prompt is, with the prefix that the server puts before it and tells of too. */
async function given(model, prompt) {
    const prefix = prompt === '</s>' ? '' : state.served.models.find(m => m.id === model)?.prefix ?? '';
    const r = await call('/tokenize', {method: 'POST', headers: {'Content-Type': 'application/json'},
                                       body: JSON.stringify({content: prefix + prompt, model})});
    return (await r.json()).count;
}

async function write() {
    const s = state.served, prompt = $('prompt').value, o = settings();
    const compare = s.kind === 'compare', models = s.models.filter(m => m.checkpoint);
    stopAll();
    hideOthers();
    say('');
    $('scale').hidden = false;
    columns = compare ? models.map(m => newColumn(m.id, m.id)) :
        Array.from({length: Number($('n').value)}, (_, i) => newColumn(`sample ${i + 1}`, models[0].id));
    $('texts').replaceChildren(...columns.map(c => c.element));
    const mine = columns;
    try {
        for (const c of mine) {
            await eosOf(c.model);
            c.given = prompt ? compare || c === mine[0] ? await given(c.model, prompt) : mine[0].given : 0;
        }
    } catch (e) {
        say(e.message, true);
        return;
    }
    const turn = 0, ask = {...o, prompt, echo: true};
    for (const c of mine) c.box.classList.add('writing');
    if (compare)
        await inTurns(mine.map(c => () => c.turn === turn &&
            complete({...ask, model: c.model}, (choice, model) => take(c, turn, choice, model))), TOGETHER);
    else
        await complete({...ask, model: models[0].id, n: mine.length},
                       (choice, model) => take(mine[choice.index], turn, choice, model));
    for (const c of mine) if (c.turn === turn) c.box.classList.remove('writing');
    if (mine === columns && !$('status').classList.contains('bad') && mine.some(c => c.served))
        say(compare ? `seed ${o.seed}` : `written by ${mine.find(c => c.served).served}, seed ${o.seed}`);
}

/* Put another token in the place of token i and write on from there. */
async function goOn(c, i, other) {
    const turn = ++c.turn, o = settings();
    hideOthers();
    c.tokens.length = i;
    while (c.box.children.length > i) c.box.lastChild.remove();
    c.given = Math.min(c.given, i);
    addToken(c, {...other, chosen: true, others: other.among, end: other.id === eos.get(c.model)});
    numbers(c);
    c.box.lastChild.focus();
    if (other.id === eos.get(c.model)) return;
    c.box.classList.add('writing');
    const ids = c.tokens.map(t => t.id), prompt = c.bare ? ids : [eos.get(c.model), ...ids];
    const done = await complete({...o, model: c.model, prompt},
                                (choice, model) => take(c, turn, choice, model));
    if (c.turn === turn) c.box.classList.remove('writing');
    if (done && c.turn === turn) say(`${c.served}, seed ${o.seed}`);
}

/* ---- alternatives ---- */

let open = null;        // the token whose alternatives are shown

function hideOthers() {
    $('others').hidden = true;
    open?.setAttribute('aria-expanded', 'false');
    open = null;
}

/* Spaces and line ends that can be seen. */
function visible(text) {
    return text.replace(/ /g, '\u00b7').replace(/\n/g, '\u21b5').replace(/\t/g, '\u21e5') || '\u2205';
}

function showOthers(c, i, at) {
    const t = c.tokens[i], box = $('others'), same = open === at;
    hideOthers();
    if (same || !t.others || !t.others.length) return;
    const list = t.others.some(o => o.id === t.id) ? t.others : t.others.concat({id: t.id, text: t.text, nats: t.nats});
    const buttons = list.map(o => {
        const p = Math.exp(-o.nats), bar = make('span', {class: 'bar'});
        bar.style.width = (100 * p).toFixed(1) + '%';
        const b = make('button', {type: 'button', 'aria-current': String(o.id === t.id)},
            make('span', {class: 'w'}, o.id === eos.get(c.model) ? '[end]' : visible(o.text)),
            make('span', {}, bar), make('span', {class: 'p'}, p >= 0.001 ? (100 * p).toFixed(1) + ' %' : '<0.1 %'));
        b.addEventListener('click', () => goOn(c, i, {...o, among: list}));
        return b;
    });
    box.replaceChildren(make('p', {}, 'instead; it goes on from there'), ...buttons);
    box.hidden = false;
    open = at;
    at.setAttribute('aria-expanded', 'true');
    const r = at.getClientRects()[0], wide = box.offsetWidth, high = box.offsetHeight;
    const below = r.bottom + high + 8 < innerHeight || r.top < high;
    box.style.left = Math.max(8, Math.min(r.left, innerWidth - wide - 8)) + scrollX + 'px';
    box.style.top = (below ? r.bottom + 5 : r.top - high - 5) + scrollY + 'px';
    (buttons.find(b => b.getAttribute('aria-current') === 'true') || buttons[0]).focus({preventScroll: true});
}

function columnOf(token) {
    return columns.find(c => c.box === token.parentNode);
}

$('texts').addEventListener('click', e => {
    const t = e.target.closest('.t');
    if (t) showOthers(columnOf(t), Number(t.dataset.i), t);
});

$('texts').addEventListener('keydown', e => {
    const t = e.target.closest('.t');
    if (!t) return;
    const to = {ArrowRight: t.nextElementSibling, ArrowLeft: t.previousElementSibling,
                Home: t.parentNode.firstChild, End: t.parentNode.lastChild}[e.key];
    if (e.key === 'Enter' || e.key === ' ') showOthers(columnOf(t), Number(t.dataset.i), t);
    else if (to) { t.tabIndex = -1; to.tabIndex = 0; to.focus(); }
    else return;
    e.preventDefault();
});

$('others').addEventListener('keydown', e => {
    const b = e.target.closest('button'), at = open;
    const to = {ArrowDown: b?.nextElementSibling, ArrowUp: b?.previousElementSibling}[e.key];
    if (e.key === 'Escape' || e.key === 'Tab') { hideOthers(); at?.focus(); }
    else if (to && to.tagName === 'BUTTON') to.focus();
    else if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return;
    e.preventDefault();
    e.stopPropagation();
});

document.addEventListener('pointerdown', e => {
    if (!e.target.closest('#others, .t')) hideOthers();
});

/* ---- the rest ---- */

$('ask').addEventListener('submit', e => { e.preventDefault(); write(); });
$('stop').addEventListener('click', stopAll);
$('prompt').addEventListener('keydown', e => {
    if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); $('ask').requestSubmit(); }
});
document.addEventListener('keydown', e => { if (e.key === 'Escape') { hideOthers(); stopAll(); } });

const dark = matchMedia('(prefers-color-scheme: dark)');
function theme() {
    const chosen = localStorage.getItem('weft-theme'), now = chosen || (dark.matches ? 'dark' : 'light');
    document.documentElement.dataset.theme = now;
    $('theme').textContent = now === 'dark' ? 'light' : 'dark';
}
$('theme').addEventListener('click', () => {
    localStorage.setItem('weft-theme', document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
    theme();
});
dark.addEventListener('change', theme);

/* A comparison goes on: what is new, or that nobody answers. */
async function lookAgain() {
    try {
        const now = await (await call('/served')).json(), busy = now.models.filter(m => m.training);
        state.lost = false;
        takeServed(now);
        if (busy.length) await catchUp(busy);
    } catch (e) {
        state.lost = true;
        tell();
    }
}

async function begin() {
    theme();
    choices('pick-y', QUANTITIES, 'y');
    choices('pick-x', AXES, 'x');
    try {
        takeServed(await (await call('/served')).json());
        const s = state.served;
        if (s.kind === 'compare') {
            await catchUp(s.models);
            setInterval(lookAgain, 10000);
        } else if (s.kind === 'run' && s.models.length) follow(s.models[0].id);
    } catch (e) {
        say(`The server does not answer: ${e.message}`, true);
    }
}
begin();
