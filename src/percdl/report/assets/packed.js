// Arrays as packing.py stores them.

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
