//! Slurm's symbols on directive lines: `%%`, `%A`, `%a`, `%d`, `%j`, `%u`, `%x`, and `\\`, which ends their
//! processing for the rest of the line.
//!
//! A line is cut into words before symbols are replaced, so that a job name or a directory with blanks stays within
//! its word, and columns are those of the text that was written. Pure; any thread may call it.

/// What the symbols stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbols {
    /// `%A`: job id of the array's master; the job id outside an array.
    pub array_job_id: Vec<u8>,
    /// `%a`: task id within the array.
    pub array_task_id: Vec<u8>,
    /// `%d`: working directory, absolute.
    pub work_dir: Vec<u8>,
    /// `%j`: job id.
    pub job_id: Vec<u8>,
    /// `%u`: user name.
    pub user: Vec<u8>,
    /// `%x`: job name.
    pub job_name: Vec<u8>,
}
