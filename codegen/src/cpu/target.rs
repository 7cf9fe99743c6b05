//! The running processor: the target of generated code, and part of the cache key.

use crate::CodegenError;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};

/// Increase this if code that older generators left in the cache must not be used.
const REVISION: u32 = 4;

/// The processor that code is generated for.
pub struct Target {
    /// Its instruction set, as Cranelift knows it.
    pub isa: OwnedTargetIsa,
    /// Whether it has fused multiply-add.
    pub fma: bool,
    /// Everything that determines the machine code, except the function itself.
    pub key: String,
}

impl Target {
    /// The processor that this process runs on.
    pub fn native() -> Result<Self, CodegenError> {
        let refused = |reason: &dyn ToString| CodegenError::Target(reason.to_string());
        let mut flags = settings::builder();
        let verifier = cfg!(debug_assertions).to_string();
        for (name, value) in [
            ("opt_level", "speed"),
            ("is_pic", "true"),
            ("enable_verifier", &verifier),
        ] {
            flags.set(name, value).map_err(|e| refused(&e))?;
        }
        let isa = cranelift_native::builder()
            .map_err(|e| refused(&e))?
            .finish(settings::Flags::new(flags))
            .map_err(|e| refused(&e))?;
        let fma = multiplies_and_adds(&*isa);
        let isa_flags: Vec<String> = isa.isa_flags().iter().map(ToString::to_string).collect();
        let key = format!(
            "gnnc-codegen {} revision {REVISION} cranelift {} {} fma={fma} {}",
            env!("CARGO_PKG_VERSION"),
            cranelift_codegen::VERSION,
            isa.triple(),
            isa_flags.join(", ")
        );
        Ok(Self { isa, fma, key })
    }
}

/// Whether Cranelift emits fused multiply-add as one instruction. On x86 without FMA or AVX it
/// would call a function for each lane; elsewhere the instruction is in the base set.
fn multiplies_and_adds(isa: &dyn TargetIsa) -> bool {
    let values = isa.isa_flags();
    let has = |name: &str| {
        let value = values.iter().find(|value| value.name == name);
        value.and_then(settings::Value::as_bool) == Some(true)
    };
    isa.name() != "x64" || (has("has_fma") && has("has_avx"))
}
