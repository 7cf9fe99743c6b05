//! Checks of how tensors lie in memory.

use super::{Check, Checked};
use crate::program::{Ref, Role};
use crate::words::storage::Storage;

/// Whether a buffer of this role has to be of 32-bit floats.
pub(super) fn always_floats(role: Role) -> bool {
    match role {
        Role::FeatureValues
        | Role::Degree(..)
        | Role::EdgeEnds(_)
        | Role::EdgePlaces(_)
        | Role::Relation(_)
        | Role::RelationDegree(_)
        | Role::Table(_)
        | Role::Param(_)
        | Role::State(..)
        | Role::Result => true,
        Role::Features | Role::Static | Role::History(_) | Role::Temp => false,
    }
}

impl Check<'_> {
    /// A tensor that lies in memory as something expects it.
    pub(super) fn stored_as(&self, what: &str, at: Ref, expected: Storage) -> Checked {
        let buffer = self.program.buffer(at.buffer);
        match buffer.storage == expected {
            true => Ok(()),
            false => Err(format!(
                "{what} is `{}` in {}, expected {expected}",
                buffer.name, buffer.storage
            )),
        }
    }

    /// A tensor of 32-bit floats.
    pub(in crate::program) fn floats(&self, what: &str, at: Ref) -> Checked {
        self.stored_as(what, at, Storage::F32)
    }

    /// A tensor whose rows are moved.
    pub(in crate::program) fn moved_rows(&self, what: &str, at: Ref) -> Checked {
        self.in_words(what, at, &[self.program.buffer(at.buffer).columns])
    }

    /// Numbers of elements of a tensor that are whole words of four bytes.
    pub(in crate::program) fn in_words(&self, what: &str, at: Ref, elements: &[u32]) -> Checked {
        let buffer = self.program.buffer(at.buffer);
        let in_word = buffer.storage.in_word();
        let odd = elements.iter().find(|n| !n.is_multiple_of(in_word));
        odd.map_or(Ok(()), |n| {
            Err(format!(
                "{what} moves {n} elements of `{}` in {}, expected an even number",
                buffer.name, buffer.storage
            ))
        })
    }

    /// The factors of a product and its result.
    pub(super) fn factors(&self, [a, b, out]: [Ref; 3]) -> Checked {
        let storage = |at: Ref| self.program.buffer(at.buffer).storage;
        self.stored_as("b", b, storage(a))?;
        match storage(out) {
            Storage::F32 => Ok(()),
            found => self.stored_as("a, as the result,", a, found),
        }
    }
}
