const at = id => document.getElementById(id);

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

function unpacked(text) { // base 85: five digits are four bytes
  const values = new Uint8Array(128), whole = text.padEnd(Math.ceil(text.length / 5) * 5, "~");
  [...DIGITS].forEach((digit, value) => { values[digit.charCodeAt()] = value; });
  const bytes = new DataView(new ArrayBuffer(whole.length / 5 * 4));
  for (let i = 0, n = 0; i < whole.length; i++) {
    n = n * 85 + values[whole.charCodeAt(i)];
    if (i % 5 === 4) { bytes.setUint32((i - 4) / 5 * 4, n); n = 0; }
  }
  return bytes.buffer.slice(0, bytes.byteLength - (whole.length - text.length));
}

async function load(ready) { // calls ready(bytes) with the weights in this file
  try {
    const stream = new Blob([unpacked(at("weights").textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
    ready(new Uint8Array(await new Response(stream).arrayBuffer()));
  } catch {
    at("status").textContent = "The model could not be opened: the file is damaged, or the browser is from before 2023.";
  }
}
