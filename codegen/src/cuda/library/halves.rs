//! The library's functions that convert 16-bit elements, with a case for each format.

use gnnc_ir::words::storage::Storage;

/// CUDA C of `gnnc_add`.
pub fn add() -> String {
    let cases: Vec<String> = halves().iter().map(|half| half.add()).collect();
    format!(
        "/* Sums of what two words hold: a float (1), or two of {}. */
static __device__ __forceinline__ float gnnc_add(float a, float b, u64 add)
{{
    if (add == 1) {{
        return a + b;
    }}
    const u32 x = gnnc_bits(a), y = gnnc_bits(b);
{}}}
",
        listed(),
        cases.concat(),
    )
}

/// CUDA C of `gnnc_number`.
pub fn number() -> String {
    let cases: Vec<String> = halves().iter().map(|half| half.number()).collect();
    format!(
        "/* Number `i` of what lies in floats (1), {}. */
static __device__ __forceinline__ float gnnc_number(const float *x, u64 i, u64 storage)
{{
    if (storage == 1) {{
        return x[i];
    }}
    const u32 bits = ((const u16 *)x)[i];
    return {};
}}
",
        listed(),
        cases.concat(),
    )
}

/// CUDA C of `gnnc_word`.
pub fn word() -> String {
    let cases: Vec<String> = halves().iter().map(|half| half.word()).collect();
    format!(
        "/* The word that holds a number (1), or two in {}. */
static __device__ __forceinline__ float gnnc_word(float low, float high, u64 storage)
{{
    return storage == 1 ? low : {};
}}
",
        listed(),
        cases.concat(),
    )
}

/// A 16-bit format as the library knows it.
struct Half {
    name: &'static str,
    code: u64,
    /// Whether it is the last format, which needs no comparison.
    last: bool,
}

impl Half {
    /// The case of `gnnc_add`.
    fn add(&self) -> String {
        let name = self.name;
        let (before, indent, after) = if self.last {
            (String::new(), "    ", "")
        } else {
            let before = format!("    if (add == {}) {{\n", self.code);
            (before, "        ", "    }\n")
        };
        format!(
            "{before}\
             {indent}const float low = gnnc_from_{name}(x & 0xffffu) + gnnc_from_{name}(y & 0xffffu);\n\
             {indent}const float high = gnnc_from_{name}(x >> 16) + gnnc_from_{name}(y >> 16);\n\
             {indent}return gnnc_float(gnnc_to_{name}(low) | gnnc_to_{name}(high) << 16);\n\
             {after}"
        )
    }

    /// The case of `gnnc_word`.
    fn word(&self) -> String {
        let name = self.name;
        let both = format!("gnnc_float(gnnc_to_{name}(low) | gnnc_to_{name}(high) << 16)");
        if self.last {
            return both;
        }
        format!("storage == {} ? {both} : ", self.code)
    }

    /// The case of `gnnc_number`.
    fn number(&self) -> String {
        let converted = format!("gnnc_from_{}(bits)", self.name);
        if self.last {
            return converted;
        }
        format!("storage == {} ? {converted} : ", self.code)
    }
}

fn halves() -> Vec<Half> {
    let formats = Storage::ALL.iter().filter(|storage| !storage.is_f32());
    let mut halves: Vec<Half> = formats
        .map(|storage| Half {
            name: storage.name(),
            code: super::number(*storage),
            last: false,
        })
        .collect();
    if let Some(half) = halves.last_mut() {
        half.last = true;
    }
    halves
}

/// The formats with their codes, as in `bf16 (2) or f16 (3)`.
fn listed() -> String {
    let mut text = String::new();
    for (n, half) in halves().iter().enumerate() {
        text += match (n, half.last) {
            (0, _) => "",
            (_, false) => ", ",
            (_, true) => " or ",
        };
        text += &format!("{} ({})", half.name, half.code);
    }
    text
}
