// The content of the page: one JSON block, with long arrays packed (packing.py).

const report = JSON.parse(document.getElementById("content").textContent);

const MISSING = 65535;

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Returns the curves of a packed array in one flat list, the last axis of its shape being time.
async function unpack(packed) {
  const raw = await inflate(packed.bytes);
  const length = packed.shape[packed.shape.length - 1];
  const count = raw.length / 2;
  const curves = [];
  for (let row = 0; row < packed.low.length; row++) {
    const curve = new Float64Array(length);
    let level = 0;
    for (let i = 0; i < length; i++) {
      const at = row * length + i;
      level = (level + raw[at] + 256 * raw[count + at]) & 65535;
      curve[i] = level === MISSING ? NaN : packed.low[row] + packed.step[row] * level;
    }
    curves.push(curve);
  }
  return curves;
}

const nAtoms = report.n_atoms;
const nChannels = report.channels.length;
const times = Float64Array.from({ length: report.length }, (_, i) => i / report.sfreq);

// The current selection; every chart is drawn from it.
const view = { subject: 0, atom: 0, channel: 0 };

function subjectId(s) {
  return report.columns[0].values[s];
}

function eventsOf(s) {
  const { offsets, atom, onset, amplitude, length, quality, flagged } = report.events;
  const found = [];
  for (let i = offsets[s]; i < offsets[s + 1]; i++) {
    found.push({
      atom: atom[i],
      onset: onset[i],
      amplitude: amplitude[i],
      length: length ? length[i] : report.length,
      quality: quality[i],
      flagged: flagged[i],
    });
  }
  return found;
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

// What the page knows of one person. The studio asks its server instead.
let readPerson = async (s) => ({
  personal: await unpack(report.personal[s]),
  warps: await unpack(report.warps[s]),
  speeds: (await unpack(report.speeds[s])).map((curve) => curve.map(Math.exp)),
  departure: report.departures ? await unpack(report.departures[s]) : null,
  events: eventsOf(s),
  seen: { start: 0, run: report.run, curves: await unpack(report.recordings[s]) },
});
