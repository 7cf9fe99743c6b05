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
