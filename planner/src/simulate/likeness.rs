//! Instructions that cost the same.

use super::alike::{kernels_outlined, outlined, without_sites};
use gnnc_ir::program::{BufferId, Instr, KernelId, Program};

/// Which instructions of a program cost the same: those that differ only in which of several equal buffers they read and
/// write.
pub(super) struct Likeness {
    /// The first buffer that is like each one.
    buffers: Vec<u32>,
    /// The same of kernels.
    kernels: Vec<u32>,
    /// An instruction of each kind.
    known: Vec<Instr>,
}

impl Likeness {
    /// Of a program.
    pub fn of(program: &Program) -> Self {
        let hosted = |id: u32| program.is_hosted(BufferId(id));
        let buffers = program.buffers.iter().zip(0..).map(|(buffer, id)| {
            let (rows, role) = (buffer.extent, outlined(buffer.role));
            (
                rows,
                buffer.columns,
                buffer.slots,
                buffer.storage,
                role,
                hosted(id),
            )
        });
        Self {
            buffers: firsts(buffers),
            kernels: firsts(kernels_outlined(program).into_iter()),
            known: Vec::new(),
        }
    }

    /// The number of the kind of an instruction, or of the communication of which it is a half.
    pub fn kind(&mut self, instr: &Instr) -> usize {
        let outline = self.outline(instr.whole());
        let known = self.known.iter().position(|one| *one == outline);
        known.unwrap_or_else(|| {
            self.known.push(outline);
            self.known.len() - 1
        })
    }

    /// How many kinds there are.
    pub fn kinds(&self) -> usize {
        self.known.len()
    }

    /// The instruction with the first buffers that are like its own, which are told apart by their order in it.
    fn outline(&self, instr: &Instr) -> Instr {
        let mut outline = instr.clone();
        without_sites(std::slice::from_mut(&mut outline));
        let (mut seen, buffers) = (Vec::new(), self.buffers.len() as u32);
        outline.each_ref(&mut |at| {
            let place = seen.iter().position(|buffer| *buffer == at.buffer);
            let place = place.unwrap_or_else(|| {
                seen.push(at.buffer);
                seen.len() - 1
            });
            at.buffer = BufferId(self.buffers[at.buffer.0 as usize] + buffers * place as u32);
        });
        if let Some(launch) = outline.launch_mut() {
            launch.kernel = KernelId(self.kernels[launch.kernel.0 as usize]);
        }
        outline
    }
}

/// The place of the first item that is equal to each one.
fn firsts<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<u32> {
    let mut known: Vec<(T, u32)> = Vec::new();
    let first = |(item, place): (T, u32)| match known.iter().find(|(one, _)| *one == item) {
        Some((_, first)) => *first,
        None => {
            known.push((item, place));
            place
        }
    };
    items.zip(0..).map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::program::{Buffer, Extent, Ref, Role, instr};
    use gnnc_ir::words::storage::Storage;

    #[test]
    fn moves_between_equal_buffers_are_of_one_kind() {
        let buffer = |columns| Buffer {
            name: format!("of {columns}"),
            extent: Extent::Inner,
            columns,
            slots: 1,
            role: Role::Features,
            storage: Storage::F32,
        };
        let program = Program {
            buffers: [4, 4, 4, 8, 4].map(buffer).to_vec(),
            hosted: vec![BufferId(4)],
            ..Program::default()
        };
        let mut likeness = Likeness::of(&program);
        let mut kind = |from: u32, to: u32| {
            let [from, to] = [from, to].map(|id| Ref::first(BufferId(id)));
            let chunk = None;
            likeness.kind(&Instr::Move(instr::Move { from, to, chunk }))
        };
        assert_eq!(kind(0, 1), 0);
        assert_eq!(kind(2, 1), 0);
        // Other columns, one buffer twice, and one on the host are something else.
        assert_eq!(
            [kind(0, 3), kind(3, 0), kind(1, 1), kind(0, 4)],
            [1, 2, 3, 4]
        );
        assert_eq!(kind(2, 2), 3);
        assert_eq!(likeness.kinds(), 5);
    }
}
