//! Lists that the ranks of a device tell each other about their batches. The processor has them, so these messages
//! need no memory of the device.

use super::device_rank::DeviceRank;
use super::launch::Stop;
use super::mail::Mail;
use super::run::Device;
use crate::communication::Half;
use crate::fault::Fault;
use crate::part::asked::OfBatch;
use crate::part::batch::Batch;
use crate::steps::Step;
use gnnc_ir::program::{Among, BatchSizes, Group, Instr};

/// Which lists an instruction tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// The rows that a rank needs of others.
    Rows,
    /// The lower levels of its part of the batch.
    Levels,
}

/// A rank that tells lists.
struct Telling {
    told: Told,
    group: Group,
    /// Its place in the group.
    place: u32,
    tag: u32,
}

impl Told {
    fn of(instr: &Instr) -> Option<Self> {
        let whole = instr.whole();
        if matches!(whole, Instr::AskRows(_) | Instr::CacheRows(_)) {
            return Some(Self::Rows);
        }
        matches!(whole, Instr::ShareLevels(_)).then_some(Self::Levels)
    }
}

/// Whether an instruction tells lists.
pub(super) fn tells(instr: &Instr) -> bool {
    Told::of(instr).is_some()
}

impl Device {
    /// Tells the lists of an instruction, and takes those of other ranks. `begun` says whether the rank has told
    /// its own. Returns false if the rank has to wait for another one; true for instructions without lists.
    pub(super) fn tell_lists(
        &mut self,
        place: usize,
        step: &Step,
        begun: &mut bool,
    ) -> Result<bool, Stop> {
        let Some(told) = Told::of(step.instr) else {
            return Ok(true);
        };
        let Self {
            gpu,
            device_ranks,
            mail,
            ..
        } = self;
        let device_rank = &mut device_ranks[place];
        let Half {
            whole,
            tag,
            begins,
            finishes,
        } = device_rank.own.half(step.instr);
        let group = device_rank.own.group(match told {
            Told::Rows => Among::All,
            Told::Levels => Among::Slices,
        });
        let telling = Telling {
            told,
            group,
            place: group.place(device_rank.own.number),
            tag,
        };
        if begins && !*begun {
            if let (Instr::CacheRows(_), Some(batch)) =
                (whole, device_rank.own.part.batches.at_hand_mut())
            {
                batch.ask_for_cache();
            }
            device_rank.tell(mail, &telling)?;
            *begun = true;
        }
        if !finishes {
            return Ok(true);
        }
        let Some(lists) = mail.lists(device_rank.own.number, &telling.ranks(), tag) else {
            return Ok(false);
        };
        if let Some(sizes) = device_rank.hear(&telling, &lists)? {
            device_rank.fit(gpu, sizes, step.instr)?;
        }
        Ok(true)
    }
}

impl Telling {
    /// The other ranks of the group, in the order of their places.
    fn ranks(&self) -> Vec<u32> {
        let others = self.group.others(self.place);
        others.map(|other| self.group.rank(other)).collect()
    }
}

impl DeviceRank {
    fn batch(&mut self) -> Result<&mut Batch, Fault> {
        let batch = self.own.part.batches.at_hand_mut();
        batch.ok_or(Fault::Missing("batches"))
    }

    /// Sends the lists of this rank.
    fn tell(&mut self, mail: &mut Mail, telling: &Telling) -> Result<(), Fault> {
        let number = self.own.number;
        let mut words = 0;
        let batch = self.batch()?;
        for other in telling.group.others(telling.place) {
            let list = match telling.told {
                Told::Rows => batch.asked().list(OfBatch::Rows, other).to_vec(),
                Told::Levels => levels(batch),
            };
            words += list.len() as u64;
            mail.tell_list((number, telling.group.rank(other), telling.tag), list);
        }
        self.sent += 4 * words;
        Ok(())
    }

    /// Takes the lists of the others, in the order of their places; the sizes of the batch, if they change.
    fn hear(&mut self, telling: &Telling, lists: &[Vec<u32>]) -> Result<Option<BatchSizes>, Fault> {
        let Telling {
            told, group, place, ..
        } = *telling;
        let batch = self.batch()?;
        for (other, list) in group.others(place).zip(lists) {
            match told {
                Told::Rows if !batch.serve(place, other, list) => {
                    return Err(Fault::Missing("the rows that another rank asks for"));
                }
                Told::Rows => {}
                Told::Levels => {
                    let message = batch.message_of(group, other, list.len());
                    message.copy_from_slice(list);
                }
            }
        }
        if told == Told::Rows {
            return Ok(batch.gather(place));
        }
        let own = levels(batch);
        let message = batch.message_of(group, place, own.len());
        message.copy_from_slice(&own);
        batch.merge().map(Some)
    }
}

/// The lower levels of the rank's part of the batch at hand, as others are told them.
fn levels(batch: &Batch) -> Vec<u32> {
    let mut message = vec![0; batch.message_length()];
    batch.write_message(&mut message);
    message
}
