// Listens to the server, and has what it says shown.

const RANGE = { fine: 5 * 60000, coarse: 60 * 60000 };
/** The server says something every two seconds: after so many milliseconds without a word it is late. */
const LATE = 7000;

const past = { fine: [], coarse: [] };
let fields = [];
let present = null;
let before = null;
let heard = null;
let shown = 'fine';

const rate = (name, scale = 1) => (point) => (point[name] == null ? null : (point[name] * scale * 1000) / Math.max(1, point.span));
const level = (name, scale = 1) => (point) => (point[name] == null ? null : point[name] * scale);

const charts = [
  new Chart({ title: 'Responses per second', stacked: true, series: [
    { name: '5xx', colour: 'bad', value: rate('5xx') },
    { name: '4xx', colour: 'careful', value: rate('4xx') },
    { name: '3xx', colour: 'other', value: rate('3xx') },
    { name: '2xx', colour: 'good', value: rate('2xx') },
  ] }),
  new Chart({ title: 'Busy threads', whole: true, series: [
    { name: 'ready', colour: 'quiet', dashed: true, value: level('threads') },
    { name: 'busy', colour: 'brand', value: level('running') },
  ] }),
  new Chart({ title: 'Queue', whole: true, series: [{ name: 'requests waiting', colour: 'careful', value: level('queue') }] }),
  new Chart({ title: 'Mean wait in the queue', format: time, mark: briefly, series: [
    { name: 'wait', colour: 'careful', value: (point) => (point.queued == null ? null : point.queued ? point.waited / point.queued / 1e6 : 0) },
  ] }),
  new Chart({ title: 'Connections', whole: true, series: [{ name: 'open', colour: 'other', value: level('connections') }] }),
  new Chart({ title: 'Bytes per second', format: bytes, base: 1024, series: [
    { name: 'sent', colour: 'good', value: rate('sent') },
    { name: 'received', colour: 'other', value: rate('received') },
  ] }),
  new Chart({ title: 'Memory of all workers', format: bytes, base: 1024, series: [{ name: 'in use', colour: 'brand', value: level('memory') }] }),
  new Chart({ title: 'Workers', whole: true, series: [
    { name: 'wanted', colour: 'quiet', dashed: true, value: level('wanted') },
    { name: 'ready', colour: 'good', value: level('ready') },
  ] }),
];

/** A point by the names of its numbers. */
function named(numbers) {
  return Object.fromEntries(fields.map((name, index) => [name, numbers[index]]));
}

/** Adds a point, and forgets what is too old. A point is joined to the one before unless something is missing between them. */
function add(track, numbers) {
  const point = named(numbers);
  const all = past[track];
  const last = all[all.length - 1];
  if (last && last.at >= point.at) return;
  point.joined = Boolean(last) && point.at - last.at < point.span * 1.5 + 1000;
  all.push(point);
  while (all.length && all[0].at < point.at - RANGE[track] - point.span) all.shift();
}

function showCharts() {
  const to = present?.at;
  if (!to) return;
  charts.forEach((chart) => chart.show(past[shown], to - RANGE[shown], to));
}

/** What the counters of points have grown by in the last hour. */
function lastHour() {
  const points = past.coarse.length ? [...past.coarse] : [];
  const known = points.length ? points[points.length - 1].at : 0;
  points.push(...past.fine.filter((point) => point.at > known));
  const names = fields.filter((name) => name.startsWith('ended_'));
  return Object.fromEntries(names.map((name) => [name, points.reduce((sum, point) => sum + point[name], 0)]));
}

function tiles() {
  const point = past.fine[past.fine.length - 1] ?? {};
  const { connections, queue, oldest, running, threads, ready, wanted, memory } = present.levels;
  const per = (name) => rate(name)(point);
  const responses = ['1xx', '2xx', '3xx', '4xx', '5xx'].map(per).reduce((sum, value) => (value == null ? sum : (sum ?? 0) + value), null);
  const errors = responses ? (100 * per('5xx')) / responses : responses;
  const used = running == null ? null : running / Math.max(1, threads);
  return [
    { label: 'Responses', value: count(responses), unit: '/ s', beside: `${count(present.counters.responses_2xx)} well in all` },
    { label: 'Errors', value: errors == null ? '–' : significant(errors), unit: '% 5xx', beside: `${count(present.counters.responses_5xx)} in all`, mood: errors > 5 ? 'bad' : errors > 0 ? 'careful' : '' },
    { label: 'Busy threads', value: count(running), unit: `of ${count(threads)}`, beside: used == null ? '' : `${Math.min(100, Math.round(100 * used))} %`, mood: used >= 1 ? 'careful' : '' },
    { label: 'Queue', value: count(queue), unit: queue == null ? '' : 'waiting', beside: queue ? `the first for ${time(oldest / 1000)}` : '', mood: oldest > 1000 ? 'careful' : '' },
    { label: 'Connections', value: count(connections), beside: `${count(per('accepted'))} new / s` },
    { label: 'Sent', value: bytes(per('sent')), unit: '/ s', beside: `${bytes(per('received'))} / s received` },
    { label: 'Workers', value: count(ready), unit: `of ${count(wanted)}`, beside: present.edges ? `${present.edges} ${present.edges === 1 ? 'edge' : 'edges'}` : 'no edges', mood: ready < wanted ? 'careful' : '' },
    { label: 'Memory', value: bytes(memory), beside: memory && ready ? `${bytes(memory / ready)} each` : '' },
  ];
}

function showPresent() {
  const { state, uptime, version, generation } = present;
  place('main').hidden = false;
  write(place('state'), state);
  place('state').className = `pill ${STATES[state] ?? ''}`;
  write(place('about'), [`up ${time(uptime)}`, generation == null ? '' : `generation ${generation}`, `version ${version}`].filter(Boolean).join(' · '));
  showTiles(tiles());
  showProcesses(present, before);
  showRequests(present);
  showEnds(present, lastHour());
  showCharts();
}

function showNews() {
  const late = heard === null || Date.now() - heard > LATE;
  const news = place('news');
  const text = heard === null ? 'connecting' : late ? `no news since ${clock(heard)}` : 'live';
  write(news, text);
  news.className = heard === null ? '' : late ? 'late' : 'live';
  document.body.classList.toggle('late-body', late && heard !== null);
}

function listen() {
  const source = new EventSource('events');
  source.addEventListener('history', (event) => {
    const told = JSON.parse(event.data);
    fields = told.fields;
    for (const track of ['fine', 'coarse']) {
      past[track] = [];
      told[track].forEach((numbers) => add(track, numbers));
    }
    before = null;
  });
  source.addEventListener('now', (event) => {
    const told = JSON.parse(event.data);
    for (const track of ['fine', 'coarse']) if (told[track]) add(track, told[track]);
    // What comes when somebody opens the page is too near to what comes next for rates.
    before = present && told.at - present.at > 900 ? present : before;
    present = told;
    heard = Date.now();
    showPresent();
    showNews();
  });
  source.addEventListener('error', () => {
    showNews();
    // The browser tries again by itself, except after an answer that it does not like.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  });
}

place('charts').append(...charts.map((chart) => chart.figure));
write(place('host'), location.host);
document.title = `${location.host} – Oribi`;
document.querySelectorAll('input[name=range]').forEach((input) => input.addEventListener('change', () => {
  shown = input.value;
  showCharts();
}));
setInterval(showNews, 1000);
listen();
