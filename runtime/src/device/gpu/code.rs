//! The kernels of all programs on a device, as one module.

use super::driver::{Address, Driver, Function};
use crate::RuntimeError;
use crate::programs::Programs;
use crate::sparse::{self, Key};
use gnnc_codegen::CodegenError;
use gnnc_codegen::cuda::library::{self, Entry};
use gnnc_codegen::cuda::together::{self, Together};
use gnnc_codegen::cuda::{Source, generate, module};
use gnnc_ir::kernel::flatten::flatten;
use gnnc_ir::kernel::{Body, Kernel, Operand};
use gnnc_ir::program::Program;
use gnnc_ir::program::trace::Phase;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All kernels.
pub(super) struct Code {
    loaded: Vec<Arc<Loaded>>,
    /// Indices into `loaded`, by program and kernel.
    programs: Vec<Vec<usize>>,
    sparse: BTreeMap<Key, usize>,
    library: Vec<(Entry, Function)>,
}

/// A generated kernel.
pub(super) struct Loaded {
    pub(super) kernel: Kernel,
    pub(super) source: Source,
    functions: Vec<Function>,
    /// Runs several sets of operands in one launch, if a program has such launches.
    pub(super) together: Option<LoadedTogether>,
}

/// A kernel's entry point for several sets of operands.
pub(super) struct LoadedTogether {
    pub(super) source: Together,
    pub(super) function: Function,
}

impl Loaded {
    /// The required alignment in bytes of an input or output that violates it, if any. Only
    /// operands accessed several elements at a time need alignment.
    pub(super) fn misplaced(&self, inputs: &[Address], outputs: &[Address]) -> Option<u64> {
        let kernel = flatten(&self.kernel);
        let wide = |operand: &Operand| operand.column_step != 0 && kernel.width > 1;
        let off = |(operand, at): (&Operand, &Address)| {
            let alignment = self.source.schedule.alignment(operand.storage);
            (wide(operand) && !at.0.is_multiple_of(alignment)).then_some(alignment)
        };
        // A column reduction writes single floats.
        let written = match kernel.body {
            Body::ColReduce { .. } => &[],
            _ => &kernel.outputs[..],
        };
        let all = kernel.inputs.iter().zip(inputs);
        all.chain(written.iter().zip(outputs)).find_map(off)
    }

    /// An entry point by name.
    pub(super) fn entry(&self, name: &str) -> Option<Function> {
        let mut entries = self.source.schedule.entries();
        let place = entries.position(|entry| entry == name)?;
        self.functions.get(place).copied()
    }
}

impl Code {
    /// Generates the kernels, equal ones only once, and loads them.
    ///
    /// # Errors
    /// An invalid kernel, or one the driver cannot compile.
    pub(super) fn load(programs: &Programs, driver: &mut dyn Driver) -> Result<Self, RuntimeError> {
        let mut sources: Vec<(Kernel, Source)> = Vec::new();
        let mut place = |kernel: &Kernel, number: usize| -> Result<usize, RuntimeError> {
            if let Some(there) = sources.iter().position(|(known, _)| known == kernel) {
                return Ok(there);
            }
            let name = format!("k{}", sources.len());
            let source = generate(kernel, &name).map_err(|e| RuntimeError::Kernel {
                kernel: number,
                source: CodegenError::Invalid(e),
            })?;
            sources.push((kernel.clone(), source));
            Ok(sources.len() - 1)
        };
        let (mut places, mut sparse) = (Vec::new(), BTreeMap::new());
        for program in programs.all() {
            let kernels = program.kernels.iter().enumerate();
            let of = kernels.map(|(number, kernel)| place(kernel, number));
            places.push(of.collect::<Result<Vec<usize>, _>>()?);
            for (number, key) in sparse::keys(program) {
                sparse.insert(key, place(&sparse::kernel(key), number)?);
            }
        }
        let mut merged: BTreeMap<usize, Together> = BTreeMap::new();
        for (program, places) in programs.all().iter().zip(&places) {
            for place in merged_kernels(program).filter_map(|number| places.get(number)) {
                let (kernel, source) = &sources[*place];
                let name = format!("{}_together", source.name);
                let found =
                    together::together(kernel, &name).map_err(|e| RuntimeError::Kernel {
                        kernel: *place,
                        source: CodegenError::Invalid(e),
                    })?;
                merged.extend(found.map(|found| (*place, found)));
            }
        }
        let mut text = module(sources.iter().map(|(_, source)| source)) + "\n" + &library::text();
        merged
            .values()
            .for_each(|m| text = [&text[..], &m.text].join("\n"));
        let entries = |source: &Source| -> Vec<(String, usize)> {
            let entries = source.schedule.entries();
            entries
                .map(|entry| (entry.to_owned(), source.parameters.len()))
                .collect()
        };
        let mut names: Vec<(String, usize)> = Vec::new();
        for (_, source) in &sources {
            names.extend(entries(source));
        }
        names.extend(Entry::ALL.map(|entry| (entry.name().to_owned(), entry.arguments())));
        let further = merged
            .values()
            .map(|m| (m.name.clone(), together::ARGUMENTS));
        names.extend(further);
        let wanted: Vec<(&str, usize)> = names.iter().map(|(name, n)| (&name[..], *n)).collect();
        let mut functions = driver.load(&text, &wanted)?.into_iter();
        let mut loaded = Vec::with_capacity(sources.len());
        for (kernel, source) in sources {
            let count = source.schedule.entries().count();
            loaded.push(Arc::new(Loaded {
                kernel,
                functions: functions.by_ref().take(count).collect(),
                source,
                together: None,
            }));
        }
        let library = Entry::ALL
            .into_iter()
            .zip(functions.by_ref().take(Entry::ALL.len()));
        let library = library.collect();
        for ((place, source), function) in merged.into_iter().zip(functions) {
            if let Some(loaded) = loaded.get_mut(place).and_then(Arc::get_mut) {
                loaded.together = Some(LoadedTogether { source, function });
            }
        }
        Ok(Self {
            loaded,
            programs: places,
            sparse,
            library,
        })
    }

    /// A kernel of a program, both by index.
    pub(super) fn kernel(&self, program: usize, number: usize) -> Option<Arc<Loaded>> {
        let place = self.programs.get(program)?.get(number)?;
        self.loaded.get(*place).cloned()
    }

    /// The kernel of a sparse product.
    pub(super) fn sparse(&self, key: Key) -> Option<Arc<Loaded>> {
        let place = self.sparse.get(&key)?;
        self.loaded.get(*place).cloned()
    }

    /// A kernel of the library; all of them are loaded.
    pub(super) fn library(&self, entry: Entry) -> Function {
        let found = self.library.iter().find(|(known, _)| *known == entry);
        found.map_or(Function(u32::MAX), |(_, function)| *function)
    }
}

/// Indices of the kernels a program launches together.
fn merged_kernels(program: &Program) -> impl Iterator<Item = usize> {
    let lists = Phase::ALL.into_iter();
    let all = lists.flat_map(|phase| gnnc_ir::program::together(program.list(phase), program));
    let launches = all.flat_map(|together| together.launches);
    launches.map(|once| once.launch.kernel.0 as usize)
}
