// The content of the page: one JSON block, with long arrays packed (packing.py).

const report = JSON.parse(element("content").textContent);

const nAtoms = report.n_atoms;
const nChannels = report.channels.length;

// The current selection; every chart is drawn from it.
const view = { subject: 0, atom: 0, channel: 0 };

// The samples per second of the atom in view, and their times: shorter atoms have as many samples.
const clock = () => report.clocks[view.atom];
const times = () => Float64Array.from({ length: report.length }, (_, i) => i / clock());

function subjectId(s) {
  return report.columns[0].values[s];
}

// Events, from one list per column to one object each.
function listEvents({ atom, onset, amplitude, length, quality, flagged }) {
  return atom.map((_, i) => ({
    atom: atom[i],
    onset: onset[i],
    amplitude: amplitude[i],
    length: length ? length[i] : report.length,
    quality: quality[i],
    flagged: flagged[i],
  }));
}

function median(values) {
  if (!values.length) return NaN;
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// Such as "RRY (deg/s)".
function signalLabel(channel) {
  const unit = report.units[channel];
  return report.channels[channel] + (unit ? ` (${unit})` : "");
}

// What the studio does in its own way: it reads from its server, draws more, and listens to more.
let findPerson = async (s) => report.people[s];
let refine = () => {};
let addTraces = () => [];
let addShapes = () => [];
let addNumbers = () => [];
let chosePerson = () => {};
let listenToStudio = () => {};

async function readPerson(s) {
  const { words, personal, phases, times, speeds, departure, events, piece } = await findPerson(s);
  return {
    words,
    phases,
    personal: await unpack(personal),
    times: await unpack(times),
    speeds: (await unpack(speeds)).map((curve) => curve.map(Math.exp)),
    departure: departure && (await unpack(departure)),
    events: listEvents(events),
    ...(await readPiece(piece)),
  };
}

// A piece of the recording, and of its reconstruction if it is there.
async function readPiece({ start, run, seen, made }) {
  const read = async (packed) => packed && { start, run, curves: await unpack(packed) };
  return { seen: await read(seen), made: await read(made) };
}
