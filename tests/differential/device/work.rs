//! Executes work on the processor and checks that it does nothing illegal.

use super::{Fake, Work};
use gnnc::ir::words::storage::Storage;
use gnnc::runtime::device::gpu::driver::{
    Address, Function, HostAddress, Matrix, Product, Stream, Touched,
};
use std::fmt::Write;

/// Whether a product is computed with its epilogue: some are, so that one program has both
/// kinds.
pub(super) fn ends(product: &Product) -> bool {
    !product.columns.is_multiple_of(4)
}

impl Fake {
    pub(super) fn perform(&mut self, on: Stream, work: &Work) -> Result<(), String> {
        let name = self.name(work);
        if let Some(listed) = &mut self.seen.lock().unwrap().listed {
            listed.push(format!("{}: {name}", on.0));
        }
        match work {
            Work::Record(event) => return self.clocks.record(*event, on),
            Work::Wait(event) => return self.clocks.wait(on, *event),
            _ => self.clocks.work(on, name),
        }
        let read = |at, bytes| Touched {
            at,
            bytes,
            written: false,
        };
        let written = |at, bytes| Touched {
            at,
            bytes,
            written: true,
        };
        match work {
            Work::Launch(function, grid, arguments, touched) => {
                self.launched(on, *function, *grid, arguments, touched)
            }
            Work::Multiply(product) => {
                let bias = product.end.and_then(|end| end.bias);
                if bias.is_some_and(|at| !at.0.is_multiple_of(16)) {
                    return Err("a bias that is read by 16 bytes lies between".to_owned());
                }
                self.multiplied(on, product)
            }
            Work::Copy(from, to, bytes) => {
                if from.0 < to.0 + bytes && to.0 < from.0 + bytes {
                    return Err("what is copied overlaps".to_owned());
                }
                self.touch(on, read(*from, *bytes))?;
                self.touch(on, written(*to, *bytes))?;
                let copied = self.bytes(*from, *bytes)?.to_vec();
                self.bytes(*to, *bytes)?.copy_from_slice(&copied);
                Ok(())
            }
            Work::Fetch(from, to, bytes) => self.copied(on, [from.0, to.0], *bytes, true),
            Work::Store(from, to, bytes) => self.copied(on, [from.0, to.0], *bytes, false),
            Work::Clear(at, bytes) => {
                self.touch(on, written(*at, *bytes))?;
                self.bytes(*at, *bytes)?.fill(0);
                Ok(())
            }
            Work::Exchange(sent, received) => {
                for message in sent {
                    self.touch(on, read(message.at, message.bytes))?;
                    let bytes = self.bytes(message.at, message.bytes)?.to_vec();
                    let mut all = self.wires.messages.lock().unwrap();
                    let queue = all.entry((self.rank, message.peer)).or_default();
                    queue.push_back(bytes);
                    self.wires.sent.notify_all();
                }
                for message in received {
                    self.touch(on, written(message.at, message.bytes))?;
                    let bytes = self.receive(message.peer);
                    let to = self.bytes(message.at, message.bytes)?;
                    if bytes.len() != to.len() {
                        return Err("a message has another length".to_owned());
                    }
                    to.copy_from_slice(&bytes);
                }
                Ok(())
            }
            Work::Record(_) | Work::Wait(_) => Ok(()),
        }
    }

    fn receive(&self, from: u32) -> Vec<u8> {
        let mut all = self.wires.messages.lock().unwrap();
        loop {
            let queue = all.entry((from, self.rank)).or_default();
            if let Some(bytes) = queue.pop_front() {
                return bytes;
            }
            all = self.wires.sent.wait(all).unwrap();
        }
    }

    /// Runs a kernel and checks that it writes only what it declared.
    fn launched(
        &mut self,
        on: Stream,
        function: Function,
        grid: [u32; 2],
        arguments: &[u64],
        touched: &[Touched],
    ) -> Result<(), String> {
        for one in touched {
            self.touch(on, *one)?;
        }
        let mut before: Vec<(u64, Vec<u8>)> = Vec::new();
        for (begin, block) in &self.memory {
            // SAFETY: the block lives as long as the driver.
            let bytes = unsafe { std::slice::from_raw_parts(*begin as *const u8, block.bytes) };
            before.push((*begin, bytes.to_vec()));
        }
        let (module, entry) = self.functions[function.0 as usize];
        // SAFETY: the arguments are those of the entry point, and their memory is valid.
        unsafe { self.modules[module].run(entry, arguments, grid) }?;
        let may = |at: u64| {
            let inside = |t: &&Touched| t.written && t.at.0 <= at && at < t.at.0 + t.bytes;
            touched.iter().any(|t| inside(&t))
        };
        for (begin, old) in before {
            // SAFETY: as above.
            let new = unsafe { std::slice::from_raw_parts(begin as *const u8, old.len()) };
            if new == old {
                continue;
            }
            let changed = (0..old.len()).filter(|i| old[*i] != new[*i]);
            if let Some(place) = changed.map(|i| begin + i as u64).find(|at| !may(*at)) {
                return Err(format!(
                    "{} wrote to {}, which it did not say",
                    self.modules[module].entries[entry],
                    self.place(Address(place))
                ));
            }
        }
        Ok(())
    }

    fn multiplied(&mut self, on: Stream, product: &Product) -> Result<(), String> {
        let &Product {
            rows,
            inner,
            columns,
            ..
        } = product;
        let turned = |turned: bool, a, b| if turned { (b, a) } else { (a, b) };
        let a = turned(product.a_transposed, rows, inner);
        let b = turned(product.b_transposed, inner, columns);
        let shapes = [
            (product.a, a),
            (product.b, b),
            (product.out, (rows, columns)),
        ];
        for (n, (matrix, (rows, columns))) in shapes.into_iter().enumerate() {
            if inner == 0 && n < 2 {
                continue;
            }
            let bytes = if n < 2 {
                product.factors
            } else {
                product.result
            }
            .bytes();
            for row in 0..rows {
                self.touch(
                    on,
                    Touched {
                        at: matrix.at.plus(bytes * row * matrix.stride),
                        bytes: bytes * columns,
                        written: n == 2,
                    },
                )?;
            }
        }
        let end = product.end.unwrap_or_default();
        if let (Some(at), true) = (end.bias, rows > 0) {
            let bytes = product.result.bytes() * columns;
            let written = false;
            self.touch(on, Touched { at, bytes, written })?;
        }
        let at = |matrix: Matrix, row: u64, column: u64| (matrix.at, row * matrix.stride + column);
        let number = |(at, n): (Address, u64), storage| match storage {
            // SAFETY: `touch` found all of it in allocated memory.
            Storage::F32 => unsafe { *(at.plus(4 * n).0 as *const f32) },
            // SAFETY: as above.
            half => half.decode(unsafe { *(at.plus(2 * n).0 as *const u16) }),
        };
        for row in 0..rows {
            for column in 0..columns {
                let mut sum = 0.0;
                for k in 0..inner {
                    let (i, j) = turned(product.a_transposed, row, k);
                    let (m, n) = turned(product.b_transposed, k, column);
                    let (a, b) = (at(product.a, i, j), at(product.b, m, n));
                    sum += number(a, product.factors) * number(b, product.factors);
                }
                if let Some(bias) = end.bias {
                    sum += number((bias, column), product.result);
                }
                if end.relu {
                    sum = sum.max(0.0);
                }
                let (at, n) = at(product.out, row, column);
                match product.result {
                    // SAFETY: as above.
                    Storage::F32 => unsafe { *(at.plus(4 * n).0 as *mut f32) = sum },
                    // SAFETY: as above.
                    half => unsafe { *(at.plus(2 * n).0 as *mut u16) = half.encode(sum) },
                }
            }
        }
        Ok(())
    }

    /// An address as a block and an offset in it.
    fn place(&self, at: Address) -> String {
        match self.memory.range(..=at.0).next_back() {
            Some((begin, block)) if at.0 < begin + block.bytes as u64 => {
                format!("{}+{}", block.number, at.0 - begin)
            }
            _ => "nowhere".to_owned(),
        }
    }

    /// The same for host memory.
    fn host_place(&self, at: HostAddress) -> String {
        let before = self.hosts.range(..=at.0).next_back();
        before.map_or("nowhere".to_owned(), |(begin, block)| {
            format!("host {}+{}", block.number, at.0 - begin)
        })
    }

    fn name(&self, work: &Work) -> String {
        let mut text = String::new();
        let written = match work {
            Work::Launch(function, grid, ..) => {
                let (module, entry) = self.functions[function.0 as usize];
                let entry = &self.modules[module].entries[entry];
                write!(text, "launch {entry} {}x{}", grid[0], grid[1])
            }
            Work::Multiply(product) => {
                let turned = |turned| if turned { "'" } else { "" };
                let Product {
                    rows,
                    inner,
                    columns,
                    ..
                } = product;
                let (a, b) = (turned(product.a_transposed), turned(product.b_transposed));
                write!(text, "multiply a{a} b{b} {rows}x{inner}x{columns}")
            }
            Work::Copy(from, to, bytes) => {
                let (from, to) = (self.place(*from), self.place(*to));
                write!(text, "copy {bytes} bytes from {from} to {to}")
            }
            Work::Fetch(from, to, bytes) => {
                let (from, to) = (self.host_place(*from), self.place(*to));
                write!(text, "fetch {bytes} bytes from {from} to {to}")
            }
            Work::Store(from, to, bytes) => {
                let (from, to) = (self.place(*from), self.host_place(*to));
                write!(text, "store {bytes} bytes from {from} to {to}")
            }
            Work::Clear(at, bytes) => write!(text, "clear {bytes} bytes at {}", self.place(*at)),
            Work::Exchange(sent, received) => {
                write!(text, "send {}, receive {}", sent.len(), received.len())
            }
            Work::Record(event) => write!(text, "record {}", event.0),
            Work::Wait(event) => write!(text, "wait for {}", event.0),
        };
        written.unwrap();
        text
    }
}
