// NumPy's default_rng([seed, 0]), which is SeedSequence and PCG64: a seed gives the same text here and in `elman sample`.
const LOW64 = (1n << 64n) - 1n, LOW128 = (1n << 128n) - 1n;
const MULTIPLIER = 0x2360ed051fc65da44385df649fccf645n;

function words(number) { // an integer as 32-bit words, the lowest first
  const found = [];
  do { found.push(Number(number & 0xffffffffn)); number >>= 32n; } while (number);
  return found;
}

function hasher(constant, factor) {
  return value => {
    value ^= constant;
    constant = Math.imul(constant, factor);
    value = Math.imul(value, constant);
    return value ^ (value >>> 16);
  };
}

function mix(x, y) {
  const sum = Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y) | 0;
  return sum ^ (sum >>> 16);
}

function seedWords(seed) { // four numbers of 64 bits
  const entropy = [...words(seed), 0], hash = hasher(0x43b0d7e5, 0x931e8875), pool = [];
  for (let i = 0; i < 4; i++) pool[i] = hash(entropy[i] ?? 0);
  for (let from = 0; from < Math.max(4, entropy.length); from++)
    for (let to = 0; to < 4; to++)
      if (from !== to) pool[to] = mix(pool[to], hash(from < 4 ? pool[from] : entropy[from]));
  const last = hasher(0x8b51f9dd, 0x58f38ded);
  const out = Array.from({ length: 8 }, (_, i) => BigInt(last(pool[i % 4]) >>> 0));
  return [0, 2, 4, 6].map(i => out[i] | out[i + 1] << 32n);
}

class Random {
  constructor(seed) {
    const [a, b, c, d] = seedWords(seed);
    this.increment = ((c << 64n | d) << 1n | 1n) & LOW128;
    this.state = this.increment + (a << 64n | b) & LOW128;
    this.move();
  }
  move() { this.state = this.state * MULTIPLIER + this.increment & LOW128; }
  next64() {
    this.move();
    const folded = (this.state >> 64n ^ this.state) & LOW64, rotation = this.state >> 122n;
    return (folded >> rotation | folded << (64n - rotation)) & LOW64;
  }
  next32() { // both halves of 64 bits are used, the lower one first
    const kept = this.half ?? this.next64();
    this.half = this.half === undefined ? kept >> 32n : undefined;
    return kept & 0xffffffffn;
  }
  uniform() { return Number(this.next64() >> 11n) / 2 ** 53; }
  below(n) { // an integer from 0 to n - 1
    if (n < 2) return 0;
    const size = BigInt(n), least = ((1n << 32n) - size) % size;
    let product;
    do product = this.next32() * size; while ((product & 0xffffffffn) < least);
    return Number(product >> 32n);
  }
}
