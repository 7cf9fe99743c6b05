//! Random mutations of inputs, deterministic for a seed.

/// Tokens that mutations insert: boundary numbers, and words with a meaning to some reader.
const TOKENS: &[&str] = &[
    "0",
    "-1",
    "1e999",
    "1e-999",
    "nan",
    "inf",
    "255",
    "65536",
    "4294967295",
    "18446744073709551616",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\u{e9}",
    "\u{1f600}",
    "\"",
    "#",
    "%",
    ",",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "null",
    "[]",
    "{}",
    "repeat i in 1..=3 { x = x }",
    "@src",
    "@dst",
    "|> relu",
    "if true { 1 } else { 2 }",
];

/// Xorshift (Marsaglia, 2003).
pub struct Random(u64);

impl Random {
    /// A generator that starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// A number below `n`, or 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// One of the inputs with one to three mutations.
pub fn changed(random: &mut Random, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut input = inputs[random.below(inputs.len())].clone();
    let other = &inputs[random.below(inputs.len())];
    for _ in 0..=random.below(3) {
        change(random, &mut input, other);
    }
    input
}

/// Changes a byte or a run of bytes, or inserts a token.
pub fn change(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(input.len() + 1);
    let to = (at + 1 + random.below(32)).min(input.len());
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.below(256) as u8,
        2 => drop(input.drain(at.min(to)..to)),
        3 => {
            let token = TOKENS[random.below(TOKENS.len())];
            input.splice(at..at, token.bytes());
        }
        4 => {
            let copy = input[at.min(to)..to].to_vec();
            let place = random.below(input.len() + 1);
            input.splice(place..place, copy);
        }
        5 => input.truncate(at),
        _ => {
            let from = random.below(other.len() + 1);
            let until = (from + random.below(64)).min(other.len());
            input.splice(at..at, other[from..until].iter().copied());
        }
    }
}
