//! Checks of communications in halves: what is under way is left alone.

use super::{ProgramError, inside};
use crate::access::{Access, accesses, ordered};
use crate::program::{Instr, Program, Transfer};
use crate::trace::Phase;
use std::collections::BTreeSet;

/// Checks that every half has its other half in the same list, and that nothing in between writes
/// what both halves read or touches what both write.
///
/// # Errors
/// The first half that is alone or is disturbed.
pub(super) fn verify(program: &Program) -> Result<(), ProgramError> {
    let mut tags = BTreeSet::new();
    for phase in Phase::ALL {
        list(program, phase.name(), program.list(phase), &mut tags)?;
    }
    Ok(())
}

/// What is under way.
struct Flight<'a> {
    place: String,
    instr: &'a Instr,
    transfer: &'a Transfer,
    uses: Vec<Access>,
}

fn list(
    program: &Program,
    place: &str,
    instrs: &[Instr],
    tags: &mut BTreeSet<u32>,
) -> Result<(), ProgramError> {
    let mut flights: Vec<Flight> = Vec::new();
    for (index, instr) in instrs.iter().enumerate() {
        let place = inside(place, index);
        let at = |what: String| ProgramError::new(what).at(&place, instr, program);
        let name = instr.name(program);
        if let Instr::Finish(transfer) = instr {
            let begun = flights.iter().position(|f| f.transfer == transfer);
            let Some(begun) = begun else {
                let tag = transfer.tag;
                return Err(at(format!(
                    "the end of a {name} with tag {tag} that did not begin in the same list"
                )));
            };
            flights.remove(begun);
        }
        let uses = accesses(instr, program);
        if let Some(flight) = flights.iter().find(|f| ordered(&f.uses, &uses, program)) {
            return Err(at(format!(
                "a {name} uses what the {} that began at {} still needs; finish it before",
                flight.transfer.what.name(program),
                flight.place
            )));
        }
        match instr {
            Instr::Begin(transfer) => {
                if !transfer.what.has_halves() {
                    return Err(at(format!("half of a {name}, which sends nothing")));
                }
                if transfer.tag == Transfer::WHOLE || !tags.insert(transfer.tag) {
                    return Err(at(format!(
                        "a {name} with tag {}, expected one that nothing else has",
                        transfer.tag
                    )));
                }
                flights.push(Flight {
                    place,
                    instr,
                    transfer,
                    uses,
                });
            }
            Instr::Repeat { body, .. } => list(program, &place, body, tags)?,
            _ => {}
        }
    }
    match flights.first() {
        None => Ok(()),
        Some(flight) => {
            let name = flight.transfer.what.name(program);
            let what = format!("the {name} that begins here does not end in the same list");
            Err(ProgramError::new(what).at(&flight.place, flight.instr, program))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Buffer, BufferId, Extent, Ref, Role};

    fn program(step: Vec<Instr>) -> Program {
        let buffer = Buffer {
            name: String::new(),
            extent: Extent::Local,
            columns: 2,
            slots: 1,
            role: Role::Temp,
            storage: Default::default(),
        };
        Program {
            ranks: 2,
            buffers: vec![buffer; 2],
            step,
            ..Program::default()
        }
    }

    fn exchange(buffer: u32) -> Instr {
        Instr::HaloExchange {
            buffer: Ref::first(BufferId(buffer)),
            skip: None,
        }
    }

    fn transfer(tag: u32, buffer: u32) -> Transfer {
        let what = Box::new(exchange(buffer));
        Transfer { tag, what }
    }

    fn begin(tag: u32, buffer: u32) -> Instr {
        Instr::Begin(transfer(tag, buffer))
    }

    fn finish(tag: u32, buffer: u32) -> Instr {
        Instr::Finish(transfer(tag, buffer))
    }

    #[test]
    fn halves_belong_together() {
        let check = |step| verify(&program(step));
        let other = vec![begin(1, 0), begin(2, 1), finish(1, 0), finish(2, 1)];
        assert_eq!(check(other), Ok(()));
        let refused = |step, part: &str| {
            let error = check(step).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(vec![begin(1, 0)], "step 0: the halo-exchange that begins");
        refused(vec![finish(1, 0)], "did not begin");
        refused(vec![begin(1, 0), finish(2, 0)], "with tag 2");
        refused(vec![begin(1, 0), finish(1, 1)], "did not begin");
        refused(vec![begin(0, 0), finish(0, 0)], "tag 0");
        let twice = vec![begin(1, 0), finish(1, 0), begin(1, 0), finish(1, 0)];
        refused(twice, "nothing else has");
        let disturbed = vec![begin(1, 0), exchange(0), finish(1, 0)];
        refused(disturbed, "began at step 0 still needs");
        let body = vec![finish(1, 0)];
        let outside = Instr::Repeat {
            count: 2,
            reverse: false,
            body,
        };
        refused(vec![begin(1, 0), outside], "still needs");
    }

    /// Own rows may be written while the sums of halo rows are under way, not the halo rows; and nobody may read own
    /// rows when sums are added to them.
    #[test]
    fn sums_are_under_way_without_own_rows() {
        use crate::op::Redistribute;
        use crate::program::{Chunk, Even, Grain, Matrix, Moved, Product, Vertices};
        let at = |id| Ref::first(BufferId(id));
        let matrix = |id| Matrix {
            at: at(id),
            offset: 0,
            stride: 2,
        };
        let product = |index| Instr::MatMul {
            product: Product::Nn,
            a: matrix(1),
            b: matrix(2),
            out: matrix(0),
            rows: Extent::Local,
            inner: 2,
            columns: 2,
            finish: None,
            chunk: Some(Chunk {
                index,
                of: 2,
                even: Some(Even {
                    rows: Vertices::Local,
                    grain: Grain::Reach,
                    arcs: None,
                }),
            }),
        };
        let transfer = |tag, what| Transfer {
            tag,
            what: Box::new(what),
        };
        let reduce = transfer(
            1,
            Instr::HaloReduce {
                buffer: at(0),
                skip: None,
            },
        );
        let read = transfer(
            2,
            Instr::Redistribute {
                how: Redistribute::Replicate,
                from: matrix(0),
                to: at(1),
                heads: 1,
                width: 2,
                moved: Moved::All,
            },
        );
        let [begin, finish] = [Instr::Begin, Instr::Finish].map(|half| half(reduce.clone()));
        let check = |step| verify(&program(step));
        let own = vec![begin.clone(), product(0), finish.clone()];
        assert_eq!(check(own), Ok(()));
        for (between, name) in [
            (product(1), "gemm"),
            (Instr::Begin(read.clone()), "halo-reduce"),
        ] {
            let step = vec![
                begin.clone(),
                between,
                finish.clone(),
                Instr::Finish(read.clone()),
            ];
            let error = check(step).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("still needs"),
                "{error}"
            );
        }
    }
}
