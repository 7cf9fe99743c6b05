//! Costs of copies between ranks and their hosts, of batches that hosts draw, and of messages between stages.

use super::lines::Line;
use super::{Compiler, Half, Step};
use crate::simulate::fabric::Class;
use gnnc_ir::cluster::{DeviceKind, core_profile};
use gnnc_ir::program::traffic::move_words;
use gnnc_ir::program::work::{KernelClass, Work};
use gnnc_ir::program::{Chunk, Ref, StageMessage};
use gnnc_ir::words::units::{Bytes, Flops};
use std::rc::Rc;

impl Compiler<'_> {
    /// Moves rows to or from the host, over a link that each device has to itself.
    pub(super) fn moved_rows(
        &self,
        (from, to): (Ref, Ref),
        chunk: Option<Chunk>,
        half: Half,
        at: Rc<str>,
        name: usize,
    ) -> Step {
        let seconds = |class: &Class| {
            let bytes = 4 * move_words(self.program, (from, to), chunk, &class.sizes);
            match self.cluster.host {
                Some(host) if bytes > 0 => host.latency.0 + bytes as f64 / host.bandwidth,
                // The host's memory is the rank's own.
                None if bytes > 0 => self.kernel(&Work {
                    class: KernelClass::Copy,
                    flops: Flops(0.0),
                    read: Bytes(bytes),
                    written: Bytes(bytes),
                }),
                _ => 0.0,
            }
        };
        Step::Move {
            at,
            name,
            half,
            out: !self.program.is_hosted(from.buffer),
            seconds: self.fabric.classes.iter().map(seconds).collect(),
        }
    }

    /// Draws a batch, by the rank's own core or by those of its host, which copies the lists that kernels
    /// read.
    pub(super) fn draw(&mut self, line: &Line) -> Step {
        let mut step = self.computed(line, 1.0);
        let by_host = self.cluster.device.kind == DeviceKind::Gpu;
        if let (Step::Compute { seconds, .. }, Some((core, reached)), true) =
            (&mut step, core_profile(), by_host)
        {
            let class = KernelClass::Copy;
            let rate = core.memory_bandwidth * reached.of(class).memory;
            for (seconds, class) in seconds.iter_mut().zip(&self.fabric.classes) {
                let work = line.counts.work(&class.sizes);
                let bytes = work.map_or(0, |work| work.read.0 + work.written.0);
                *seconds = bytes as f64 / rate;
            }
        }
        if let Step::Compute { at, name, seconds } = &step
            && self.samplers > 0
        {
            step = Step::Draw {
                at: at.clone(),
                name: *name,
                seconds: seconds.clone(),
                samplers: self.samplers,
            };
        }
        let Some(host) = self.cluster.host.filter(|_| by_host) else {
            return step;
        };
        let copied = |class: &Class| {
            let lists = self.batches.lists(&class.sizes);
            // Copies of a stream follow each other as kernels do.
            let starts = lists.count as f64 * self.cluster.launch_floor();
            host.latency.0 + starts + lists.bytes as f64 / host.bandwidth
        };
        let copies = Step::Move {
            at: line.at.clone(),
            name: line.name,
            half: Half::Whole,
            out: false,
            seconds: self.fabric.classes.iter().map(copied).collect(),
        };
        Step::Loop {
            count: 1,
            reverse: false,
            body: vec![step, copies],
        }
    }

    /// Sends rows to another stage, or receives rows from one.
    pub(super) fn stage_message(
        &self,
        stage_message: &StageMessage,
        sends: bool,
        at: Rc<str>,
        name: usize,
    ) -> Step {
        let (row, fixed) = stage_message.words(self.program);
        let sizes = self.fabric.classes.iter().map(|class| &class.sizes);
        let all = sizes.map(|sizes| (4 * sizes.inner * row, 4 * fixed));
        let bytes = all
            .clone()
            .map(|(rows, fixed)| rows as f64 * self.share.rows + fixed as f64);
        let bytes: Vec<f64> = bytes.collect();
        // Rows in memory for each byte of a row in the message.
        let plain = StageMessage::of(stage_message.with, stage_message.tensors.clone());
        let wider = plain.words(self.program).0 as f64 / (row as f64).max(1.0);
        let coding = |rows: u64| match &stage_message.encoded {
            None => 0.0,
            Some(encoded) => {
                let rows = rows as f64 * self.share.rows;
                self.coding(encoded.wire, wider * rows, rows)
            }
        };
        let packing = |((rows, fixed), &bytes): ((u64, u64), &f64)| {
            [None, Some(rows + fixed)]
                .map(|lay| self.copying(bytes, lay, sends, name) + coding(rows))
        };
        Step::StageMessage {
            at,
            name,
            sends,
            with: stage_message.with,
            packing: all.zip(&bytes).map(packing).collect(),
            bytes,
        }
    }

    /// Time to pack rows for another stage and wake it, or to unpack rows from one. `lay` is the
    /// number of bytes among which they were waiting, if they arrived earlier.
    fn copying(&self, bytes: f64, lay: Option<u64>, sends: bool, name: usize) -> f64 {
        match self.messages(name) {
            Some(messages) => {
                let waking = if sends { messages.latency() } else { 0.0 };
                waking + messages.copying(bytes.round() as u64, 0.0, lay)
            }
            None => self.pass(bytes, bytes, 0.0),
        }
    }
}
