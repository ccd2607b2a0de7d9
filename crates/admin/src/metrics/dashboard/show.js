// What is there now: tiles and tables.

const WHY = {
  requests: 'had answered their share (--max-requests)',
  lifetime: 'had lived long enough (--max-lifetime)',
  memory: 'used too much memory (--max-memory)',
  failure: 'ended by themselves: crashed, killed or exited',
  stuck: 'did not answer in time (--request-kill)',
  reload: 'were replaced by a reload',
  scale: 'were no longer wanted',
  stop: 'ended with the server',
};

/** Other things that have gone wrong or changed, by the names of their counters. */
const ALSO = {
  workers_failed: 'workers that ended as they should not',
  edges_failed: 'edges that ended as they should not',
  generations_loaded: 'loads of the app',
  generations_failed: 'loads of the app that have failed',
  upgrades: 'upgrades of the program',
  upgrades_failed: 'upgrades that have failed',
  requests_lost: 'requests whose workers have died',
  requests_retried: 'requests whose workers have died, tried again',
  request_timeouts: 'requests that took too long (--request-timeout)',
  queue_refused: 'requests refused because the queue was full (--queue-limit)',
  queue_timeouts: 'requests that waited too long (--queue-timeout)',
};

const STATES = { serving: 'good', ready: 'good', loading: 'careful', starting: 'careful', draining: 'careful', retiring: 'careful', finishing: 'careful', stopping: 'bad', interrupted: 'bad', abandoned: 'bad' };

const place = (id) => document.getElementById(id);

/** Changes a text only if it is another one, so that what is selected stays so. */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Tiles: for each its label, its value, what stands beside, and a word for how bad that is. */
function showTiles(tiles) {
  const list = place('tiles');
  while (list.children.length < tiles.length) {
    list.append(element('div', {}, element('dt'), element('dd', { class: 'value' }, element('span'), element('small')), element('dd', { class: 'beside' })));
  }
  tiles.forEach(({ label, value, unit = '', beside = '', mood = '' }, index) => {
    const tile = list.children[index];
    const [name, main, more] = tile.children;
    tile.className = mood;
    [[name, label], [main.children[0], value], [main.children[1], unit], [more, beside]].forEach(([node, text]) => write(node, text));
  });
  while (list.children.length > tiles.length) list.lastChild.remove();
}

/** A table: columns with a name and a class, rows of texts or of [text, class]; `empty` is said if there are no rows. */
function showTable(id, columns, rows, empty) {
  const table = place(id);
  const names = columns.map(([name]) => name).join('|');
  if (table.dataset.names !== names) {
    table.dataset.names = names;
    const heads = columns.map(([name, kind = '']) => element('th', { scope: 'col', class: /text|words/.test(kind) ? 'left' : kind }, name));
    table.replaceChildren(element('thead', {}, element('tr', {}, ...heads)), element('tbody'));
  }
  const body = table.tBodies[0];
  const all = rows.length ? rows : [[[empty, 'empty']]];
  while (body.rows.length < all.length) body.append(element('tr'));
  while (body.rows.length > all.length) body.lastChild.remove();
  all.forEach((row, index) => {
    const cells = body.rows[index];
    while (cells.cells.length < row.length) cells.append(element('td'));
    while (cells.cells.length > row.length) cells.lastChild.remove();
    row.forEach((entry, column) => {
      const [text, kind = ''] = [entry].flat();
      const cell = cells.cells[column];
      write(cell, text ?? '');
      cell.className = `${columns[column][1] ?? ''} ${kind}`.trim();
      cell.colSpan = rows.length ? 1 : columns.length;
    });
  });
}

/** Edges and workers. `before`: the same two seconds ago, for rates. */
function showProcesses(now, before) {
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  const earlier = new Map((before?.processes ?? []).map((process) => [process.pid, process]));
  const rate = (process) => {
    const then = earlier.get(process.pid);
    return then && seconds > 0 ? Math.max(0, process.requests - then.requests) / seconds : null;
  };
  const generations = now.processes.some((process) => process.generation != null);
  const running = new Map();
  for (const request of now.requests ?? []) {
    if (request.worker != null && !running.has(request.worker)) running.set(request.worker, request);
  }
  const columns = [['process', 'left'], ...(generations ? [['generation', 'wide']] : []), ['pid', 'wide'], ['state', 'left'], ['age', 'wide'], ['connections', 'wide'], ['requests', 'wide'], ['per second'], ['memory'], ['busy for']];
  showTable('workers', columns, now.processes.map((process) => {
    const request = process.kind === 'worker' ? running.get(process.number) : null;
    return [
      `${process.kind} ${process.number}${process.app ? ` of ${process.app}` : ''}`, ...(generations ? [process.generation == null ? '' : String(process.generation)] : []), String(process.pid),
      [process.state, STATES[process.state] ?? ''], time(process.age), count(process.connections), count(process.requests),
      count(rate(process)), process.kind === 'worker' ? bytes(process.memory) : '', request ? time(request.age) : '',
    ];
  }), 'none');
  sayMore('more-workers', now.more_processes, 'processes');
}

function showRequests(now) {
  const told = now.requests ?? [];
  const about = told.some((request) => request.target != null);
  const columns = [['state', 'left'], ['age'], ['worker'], ...(about ? [['request', 'text'], ['client', 'wide']] : [])];
  const empty = now.requests ? 'none at this moment' : 'nobody looks: this is known with edges (--edge on), or with a deadline such as --request-warning';
  showTable('requests', columns, told.map((request) => [
    [request.state, STATES[request.state] ?? ''], time(request.age), request.worker == null ? '' : String(request.worker),
    ...(about ? [`${request.method ?? ''} ${request.target ?? ''}`, request.client ?? ''] : []),
  ]), empty);
  sayMore('more-requests', now.more_requests, 'requests');
}

function sayMore(id, number, what) {
  place(id).hidden = !number;
  write(place(id), number ? `and ${number} more ${what}` : '');
}

/** Why workers have ended, and what else has happened. `past`: how often in the last hour, where that is known. */
function showEnds(now, past) {
  const row = (words, total, hour, kind) => [[words, ''], [hour == null ? '' : count(hour), hour && kind ? kind : ''], count(total)];
  const ends = Object.entries(WHY).map(([reason, words]) =>
    row(`workers that ${words}`, now.counters[`workers_ended_${reason}`], past[`ended_${reason}`], /failure|stuck/.test(reason) ? 'bad' : ''));
  const also = Object.entries(ALSO).map(([name, words]) => row(words, now.counters[name], past[name], 'careful'));
  showTable('ends', [['what', 'text'], ['last hour'], ['in all']], [...ends, ...also].filter(([, , total]) => total !== '0'), 'nothing yet');
}
