//! How scattered the rows of a message are.

use crate::program::{Instr, Program};

/// Separate pieces of rows that a rank sending `bytes` picks or adds one by one: rows that
/// other ranks read, or column slices of rows. 0 if whole blocks are sent.
pub fn strips(program: &Program, instr: &Instr, bytes: u64) -> u64 {
    let Some(each) = instr.strip_bytes(program) else {
        return 0;
    };
    bytes / each.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::op::{Redistribute, Slice};
    use crate::kernel::Axis;
    use crate::program::instr;
    use crate::program::work::{Demand, TERM_COUNT, TERMS};
    use crate::program::{Buffer, BufferId, Extent, Matrix, Moved, Ref, Role};
    use crate::words::storage::Storage;

    #[test]
    fn rows_and_slices_of_messages_are_picked_one_by_one() {
        let at = Ref::first(BufferId(0));
        let buffer = Buffer {
            name: "t".to_owned(),
            extent: Extent::Inner,
            columns: 16,
            slots: 1,
            role: Role::Temp,
            storage: Storage::F32,
        };
        let program = Program {
            ranks: 4,
            buffers: vec![buffer],
            ..Program::default()
        };
        let exchange = Instr::HaloExchange(instr::HaloExchange::of(at));
        assert_eq!(strips(&program, &exchange, 10 * 16 * 4), 10);
        let slice = Slice {
            axis: Axis::Width,
            of: 16,
            start: 0,
            own: 4,
            len: 4,
        };
        let redistribute = |how| {
            Instr::Redistribute(instr::Redistribute {
                how,
                from: Matrix {
                    at,
                    offset: 0,
                    stride: 16,
                },
                to: at,
                heads: 1,
                width: 16,
                moved: Moved::All,
                encoded: None,
            })
        };
        // Ten rows to three ranks, a quarter of the columns each.
        let split = redistribute(Redistribute::Split(slice));
        assert_eq!(strips(&program, &split, 10 * 3 * 4 * 4), 30);
        // Blocks are sent as they are.
        let replicate = redistribute(Redistribute::Replicate);
        assert_eq!(strips(&program, &replicate, 10 * 3 * 16 * 4), 0);
        let all = Instr::AllReduce(instr::AllReduce::whole(vec![]));
        assert_eq!(strips(&program, &all, 64), 0);
    }

    #[test]
    fn a_message_asks_for_what_it_sends() {
        let of = |demand: &Demand, name: &str| {
            demand.terms[TERMS.iter().position(|term| *term == name).unwrap()]
        };
        let sent = Demand::message("halo-exchange", 1000, 7.0, true, None);
        let counts = ["launch", "row", "stream_32k"].map(|name| of(&sent, name));
        // Each byte is read and written.
        assert_eq!(counts, [1.0, 7.0, 2000.0]);
        let large = Demand::message("halo-exchange", 1 << 25, 0.0, false, None);
        assert_eq!(large.terms.iter().sum::<f64>(), f64::from(1 << 26));
        assert_eq!(of(&large, "stream_32m"), f64::from(1 << 26));
        // Read among 4 MiB that arrived before.
        let lay = Demand::message("receive", 1 << 15, 0.0, false, Some(1 << 22));
        let counts = ["launch", "stream_32k", "stream_4m"].map(|name| of(&lay, name));
        assert_eq!(counts, [0.0, 32768.0, 32768.0]);
        assert_eq!(
            Demand::message("send", 0, 0.0, true, None).terms,
            [0.0; TERM_COUNT]
        );
    }
}
