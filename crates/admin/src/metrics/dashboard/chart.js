'use strict';
// Numbers as people read them, and charts of them.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** A number with about three digits: 0.25, 7.5, 120, 4,321, 98.7k. */
function count(value) {
  if (value == null) return '–';
  for (const [least, unit] of [[1e9, 'G'], [1e6, 'M']]) {
    if (value >= least) return `${significant(value / least)}${unit}`;
  }
  if (value >= 99950) return `${significant(value / 1e3)}k`;
  if (value >= 1000) return Math.round(value).toLocaleString('en');
  return significant(value);
}

function significant(value) {
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits);
}

/** A size in the largest unit of which there is one. */
function bytes(value) {
  if (value == null) return '–';
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : significant(value)} ${UNITS[unit]}`;
}

/** A time in seconds, as its two largest units. */
function time(value) {
  if (value == null) return '–';
  if (value === 0) return '0 s';
  if (value < 0.9995) return `${significant(value * 1000)} ms`;
  if (value < 59.95) return `${significant(value)} s`;
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(value / unit));
  if (minutes < 60) return `${minutes} min ${Math.floor(value % 60)} s`;
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${days} d ${hours % 24} h`;
}

/** A time in one unit, for marks. */
function briefly(value) {
  if (value < 59.95) return time(value);
  return value < 3600 ? `${count(value / 60)} min` : `${count(value / 3600)} h`;
}

/** The time of day of milliseconds since 1970. */
function clock(at, seconds = true) {
  return new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: seconds ? '2-digit' : undefined });
}

/** An element with attributes and children; texts are texts. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawing(name, attributes = {}, text = null) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

/** Three or four round numbers from 0 to at least `highest`. */
function ticks(highest, whole, base) {
  if (!(highest > 0)) return [0, whole ? 1 : base];
  const rough = highest / 3;
  const power = base === 1024 ? 2 ** (10 * Math.floor(Math.log2(rough) / 10)) : 10 ** Math.floor(Math.log10(rough));
  const steps = base === 1024 ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 2.5, 5, 10];
  let step = power * steps.find((step) => step * power >= rough * 0.999);
  if (whole) step = Math.max(1, Math.ceil(step));
  const all = [];
  for (let tick = 0; all.length < 2 || all[all.length - 1] < highest; tick += step) all.push(tick);
  return all;
}

// On the left there is room for the longest mark, such as 1.50 MiB.
const EDGE = { top: 8, right: 4, bottom: 18, left: 56 };

/** A chart of points, and beside it a table of its numbers. */
class Chart {
  /** `series`: for each its name, its colour and its value of a point; `stacked`: they are parts of a whole. */
  constructor({ title, series, stacked = false, format = count, mark = format, whole = false, base = 10 }) {
    Object.assign(this, { series, stacked, format, mark, whole, base });
    this.svg = drawing('svg', { role: 'img', tabindex: '0' });
    this.when = element('th', { scope: 'col' }, 'now');
    this.cells = series.map(() => [element('td'), element('td'), element('td')]);
    const rows = series.map(({ name, colour }, index) =>
      element('tr', {}, element('td', { class: `key ${colour}-series` }, name), ...this.cells[index]));
    const head = element('tr', {}, element('th'), this.when, element('th', { scope: 'col' }, 'mean'), element('th', { scope: 'col' }, 'peak'));
    this.title = title;
    this.figure = element('figure', {}, element('h3', {}, title), this.svg,
      element('table', { 'aria-label': title }, element('thead', {}, head), element('tbody', {}, ...rows)));
    this.points = [];
    this.pointed = null;
    this.svg.addEventListener('pointermove', (event) => this.point(event.offsetX));
    this.svg.addEventListener('pointerleave', () => this.point(null));
    this.svg.addEventListener('blur', () => this.point(null));
    this.svg.addEventListener('keydown', (event) => this.step(event));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  /** Shows points between two moments. Those that no series has a value in make no chart. */
  show(points, from, to) {
    Object.assign(this, { points, from, to });
    this.figure.hidden = !points.some((point) => this.series.some(({ value }) => value(point) != null));
    this.draw();
  }

  x(at) {
    return EDGE.left + ((at - this.from) / (this.to - this.from)) * (this.width - EDGE.left - EDGE.right);
  }

  /** Marks the moment at this place. */
  point(place) {
    const distance = (index) => Math.abs(this.x(this.points[index].at) - place);
    this.pointed = place === null || this.points.length === 0 ? null
      : this.points.reduce((nearest, _, index) => (distance(index) < distance(nearest) ? index : nearest), 0);
    this.draw();
  }

  step(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!steps || this.points.length === 0) return;
    event.preventDefault();
    const last = this.points.length - 1;
    this.pointed = Math.min(last, Math.max(0, (this.pointed ?? last) + steps));
    this.draw();
  }

  draw() {
    this.width = this.svg.clientWidth;
    const height = this.svg.clientHeight;
    if (!this.width || !this.to || this.figure.hidden) return;
    const rows = this.series.map(({ value }) => this.points.map(value));
    const sums = this.points.map((_, index) => rows.reduce((sum, row) => sum + (row[index] ?? 0), 0));
    const highest = Math.max(0, ...(this.stacked ? sums : rows.flat().map((value) => value ?? 0)));
    const marks = ticks(highest, this.whole, this.base);
    const [top, bottom] = [marks[marks.length - 1], height - EDGE.bottom];
    const y = (value) => bottom - (value / top) * (bottom - EDGE.top);
    const parts = marks.flatMap((mark, index) => [
      drawing('line', { class: index === 0 ? 'base' : 'grid', x1: EDGE.left, x2: this.width - EDGE.right, y1: y(mark), y2: y(mark) }),
      drawing('text', { x: EDGE.left - 6, y: y(mark) + 4, 'text-anchor': 'end' }, this.mark(mark)),
    ]);
    this.svg.replaceChildren(...parts, ...this.times(height), ...this.curves(rows, y), ...this.cursor(bottom));
    this.tell(rows);
  }

  /** The times below. */
  times(height) {
    const minute = 60000;
    const every = this.to - this.from > 10 * minute ? (this.width < 420 ? 20 : 10) * minute : minute;
    const labels = [];
    for (let at = Math.ceil(this.from / every) * every; at <= this.to; at += every) {
      const anchor = this.x(at) > this.width - 20 ? 'end' : 'middle';
      labels.push(drawing('text', { x: Math.max(this.x(at), 14), y: height - 4, 'text-anchor': anchor }, clock(at, false)));
    }
    return labels;
  }

  curves(rows, y) {
    const below = this.points.map(() => 0);
    return rows.flatMap((row, index) => {
      const { colour, dashed } = this.series[index];
      const drawn = this.pieces(row).map((piece) => {
        const places = piece.map((at) => [this.x(this.points[at].at), y(row[at] + below[at])]);
        const under = piece.map((at) => [this.x(this.points[at].at), y(below[at])]).reverse();
        const line = (all) => all.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L');
        const curve = drawing('path', { class: `curve ${dashed ? 'dashed' : ''} ${colour}-series`, d: `M${line(places)}` });
        const area = drawing('path', { class: `${this.stacked ? 'area' : 'under'} ${colour}-series`, d: `M${line([...places, ...under])}Z` });
        return this.stacked ? [area] : dashed ? [curve] : [area, curve];
      });
      if (this.stacked) row.forEach((value, at) => { below[at] += value ?? 0; });
      return drawn.flat();
    });
  }

  /** Where a row has values without a gap. */
  pieces(row) {
    const pieces = [];
    row.forEach((value, at) => {
      if (value == null) return;
      const last = pieces[pieces.length - 1];
      const joins = last && last[last.length - 1] === at - 1 && this.points[at].joined;
      if (joins) last.push(at); else pieces.push([at]);
    });
    return pieces;
  }

  cursor(bottom) {
    const at = this.points[this.pointed]?.at;
    if (!at) return [];
    return [drawing('line', { class: 'cursor', x1: this.x(at), x2: this.x(at), y1: EDGE.top, y2: bottom })];
  }

  /** The same in numbers. */
  tell(rows) {
    const at = this.points[this.pointed] ? this.pointed : this.points.length - 1;
    this.when.textContent = this.points[this.pointed] ? clock(this.points[at].at) : 'now';
    rows.forEach((row, index) => {
      const known = row.filter((value) => value != null);
      const mean = known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
      const peak = known.length ? Math.max(...known) : null;
      [row[at], mean, peak].forEach((value, column) => { this.cells[index][column].textContent = this.format(value); });
    });
    const now = this.series.map(({ name }, index) => `${name} ${this.format(rows[index][at])}`);
    this.svg.setAttribute('aria-label', `${this.title}: ${this.when.textContent} ${now.join(', ')}`);
  }
}
