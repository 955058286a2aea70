//! Parts of local files that are handed on by reference: nobody copies them on the way from the page cache to whoever
//! asked.
//!
//! What is read is what the pages hold when they are looked at, which is before [`Window::hand_over`] returns, not when
//! they were taken. So who shows content keeps everybody from changing it until then.

use std::os::fd::BorrowedFd;

/// Takes parts of files in the order of what was asked for, and hands them over as a whole. A window that said no once is
/// of no use any more: what was taken is dropped, and the content is read instead.
pub trait Window {
    /// So many bytes will follow. `false`: so many cannot be taken.
    fn begin(&mut self, length: usize) -> bool;
    /// Takes `length` bytes of a file from `offset` on. `false`: the file has fewer there, or they cannot be taken.
    fn take(&mut self, file: BorrowedFd<'_>, offset: u64, length: usize) -> bool;
    /// Everything was taken: hands it over. Nothing refers to the files any more when it returns. `false`: nothing was
    /// handed over.
    fn hand_over(&mut self) -> bool;
}
