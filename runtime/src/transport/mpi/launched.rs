//! What launchers tell the processes that they start.

/// Variables by which launchers tell each process its number, and how many there are. Those of Open MPI come first.
const LAUNCHERS: [[&str; 2]; 3] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS"],
];

/// What a launcher says of the processes that it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The number of this process.
    pub process: u32,
    /// How many there are, at least two.
    pub processes: u32,
    pub(super) by_open_mpi: bool,
}

impl Launched {
    /// `None` for a process that was started alone.
    pub fn here() -> Option<Self> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let of = |(n, [process, processes]): (usize, [&str; 2])| {
            Some(Self {
                process: number(process)?,
                processes: number(processes)?,
                by_open_mpi: n == 0,
            })
        };
        let found = LAUNCHERS.into_iter().enumerate().find_map(of);
        found.filter(|launched| launched.processes > 1)
    }
}

/// The cores to which a launcher has bound this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Cores that it may run on.
    pub cores: u32,
    /// Cores of the machine, which are more.
    pub of: u32,
}

impl Bound {
    /// `None` for a process that no launcher started, or that may run on all cores.
    pub fn here() -> Option<Self> {
        let launched = |[process, _]: &[&str; 2]| std::env::var_os(process).is_some();
        if !LAUNCHERS.iter().any(launched) {
            return None;
        }
        // SAFETY: the set is plain numbers, of which zeros are one.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set has the size that is passed; 0 is this thread.
        let code = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
        // SAFETY: the call takes only a number.
        let of = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        // SAFETY: the set was filled.
        let cores = unsafe { libc::CPU_COUNT(&set) };
        let found = Self {
            cores: u32::try_from(cores).ok()?,
            of: u32::try_from(of).ok()?,
        };
        (code == 0 && 0 < found.cores && found.cores < found.of).then_some(found)
    }

    /// What is wrong with it for a process that computes with so many threads, and what to do.
    pub fn too_few(self, threads: u32) -> Option<String> {
        let Self { cores, of } = self;
        (threads > cores).then(|| {
            format!(
                "each process computes with {threads} threads, but this one may run on {cores} of {of} cores only; give \
                 mpirun --bind-to none, or srun --cpus-per-task={threads}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_cores_than_threads_are_said() {
        let bound = Bound { cores: 2, of: 16 };
        assert_eq!(bound.too_few(2), None);
        let said = bound.too_few(8).unwrap();
        for part in ["8 threads", "2 of 16 cores", "--cpus-per-task=8"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
