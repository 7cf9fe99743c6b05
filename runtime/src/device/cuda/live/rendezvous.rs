//! How processes that train together find each other: rank 0 writes NCCL's identifier to a file that
//! all of them see, the others wait for it.

use crate::device::cuda::driver::DriverError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Begins the file.
const MAGIC: &str = "gnnc-rendezvous-1";
/// Bytes of NCCL's identifier.
pub const ID: usize = 128;
/// Between two looks at the file.
const PAUSE: Duration = Duration::from_millis(20);

/// One of several processes that train together, each on its GPU or all on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    /// Which one, from 0.
    pub rank: u32,
    /// How many.
    pub ranks: u32,
    /// A file that all of them see and that is not there yet.
    pub rendezvous: PathBuf,
    /// How long they wait for each other.
    pub patience: Duration,
}

/// Writes the identifier, aside and renamed.
///
/// # Errors
/// A file of another run, or what the system refuses.
pub fn publish(processes: &Processes, id: &[u8; ID]) -> Result<(), DriverError> {
    let path = &processes.rendezvous;
    if path.exists() {
        return Err(failed(format!(
            "found {}, which another run has left or is using; remove it or name a file that is not \
             there",
            path.display()
        )));
    }
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{MAGIC} {} {digits}\n", processes.ranks);
    let aside = path.with_extension(format!("{}.part", std::process::id()));
    let written = fs::write(&aside, text).and_then(|()| fs::rename(&aside, path));
    written.map_err(|error| {
        // Half a file is of no use; the first error is the one to be told.
        let _ = fs::remove_file(&aside);
        failed(format!("cannot write {}: {error}", path.display()))
    })
}

/// Waits for the identifier.
///
/// # Errors
/// Nothing in time; a file that is something else, or of another number of ranks.
pub fn wait(processes: &Processes) -> Result<[u8; ID], DriverError> {
    let path = &processes.rendezvous;
    let begin = Instant::now();
    loop {
        match fs::read_to_string(path) {
            Ok(text) => return parse(&text, path, processes.ranks),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(failed(format!("cannot read {}: {error}", path.display())));
            }
        }
        if begin.elapsed() > processes.patience {
            return Err(failed(format!(
                "rank {} waited {} s for {}, which rank 0 writes; check that rank 0 runs and sees the \
                 same folder",
                processes.rank,
                processes.patience.as_secs(),
                path.display()
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Removes the file; all have read it.
pub fn close(processes: &Processes) {
    // Rank 0 of the next run says so if it is still there.
    let _ = fs::remove_file(&processes.rendezvous);
}

fn parse(text: &str, path: &Path, ranks: u32) -> Result<[u8; ID], DriverError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let broken = || {
        failed(format!(
            "{} is no file that rank 0 writes; name one that is not there",
            path.display()
        ))
    };
    let [MAGIC, found, digits] = words[..] else {
        return Err(broken());
    };
    if found != ranks.to_string() {
        return Err(failed(format!(
            "rank 0 says that there are {found} ranks, this rank that there are {ranks}"
        )));
    }
    let mut id = [0; ID];
    if digits.len() != 2 * ID || !digits.is_ascii() {
        return Err(broken());
    }
    for (n, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).map_err(|_| broken())?;
    }
    Ok(id)
}

fn failed(message: String) -> DriverError {
    DriverError::Call {
        call: "the rendezvous of the processes",
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(name: &str, rank: u32) -> Processes {
        let file = format!("gnnc-rendezvous-{}-{name}", std::process::id());
        Processes {
            rank,
            ranks: 2,
            rendezvous: std::env::temp_dir().join(file),
            patience: Duration::from_millis(100),
        }
    }

    #[test]
    fn an_identifier_arrives() {
        let id: [u8; ID] = std::array::from_fn(|n| (n * 7) as u8);
        let first = processes("arrives", 0);
        let writer = {
            let first = first.clone();
            std::thread::spawn(move || publish(&first, &id))
        };
        let patient = Processes {
            patience: Duration::from_secs(20),
            ..processes("arrives", 1)
        };
        assert_eq!(wait(&patient), Ok(id));
        assert_eq!(writer.join().expect("no panic"), Ok(()));
        let again = publish(&first, &id).expect_err("the file is there");
        assert!(again.to_string().contains("another run"), "{again}");
        close(&first);
        assert!(!first.rendezvous.exists());
    }

    #[test]
    fn nobody_waits_for_ever() {
        let error = wait(&processes("nobody", 1)).expect_err("no file");
        assert!(error.to_string().contains("rank 1 waited"), "{error}");
    }

    #[test]
    fn other_files_are_refused() {
        let path = Path::new("file");
        let digits = "0".repeat(2 * ID);
        let found = |text: String| parse(&text, path, 2).map_err(|error| error.to_string());
        assert!(found(format!("{MAGIC} 2 {digits}\n")).is_ok());
        let three = found(format!("{MAGIC} 3 {digits}\n")).expect_err("3 ranks");
        assert!(three.contains("3 ranks"), "{three}");
        for text in [
            String::new(),
            format!("{MAGIC} 2 {}", &digits[1..]),
            format!("{MAGIC} 2 {}é", &digits[2..]),
            format!("{MAGIC} 2 {}xy", &digits[2..]),
        ] {
            let error = found(text).expect_err("broken");
            assert!(error.contains("is no file that rank 0 writes"), "{error}");
        }
    }
}
