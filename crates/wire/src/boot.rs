//! The number of a server process's life, and in it that of the memory of its machine.
//!
//! A server that was killed and started anew finds what it had written, synced or not: the machine's memory held it. One whose
//! machine was started anew finds what was synced. The upper bits of the number tell the two apart: they are the same as long
//! as the machine's memory is. The lower ones are random for each process.

/// Bits that are the process's own.
const PROCESS_BITS: u32 = 40;

/// The number of a process: `chance` is random for each, `memory` for each start of the machine.
pub fn number(memory: u64, chance: u64) -> u64 {
    memory << PROCESS_BITS | chance & ((1 << PROCESS_BITS) - 1)
}

/// What the number says of the machine's memory: another value is another memory.
pub fn memory(number: u64) -> u64 {
    number >> PROCESS_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_another_one_and_the_memory_the_same() {
        let (first, second) = (number(u64::MAX, 1), number(u64::MAX, u64::MAX));
        assert_ne!(first, second);
        assert_eq!(memory(first), memory(second));
        assert_ne!(memory(first), memory(number(7, 1)));
    }
}
