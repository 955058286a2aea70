//! Keeps a machine's processors from sleeping deeply while many calls are answered.
//!
//! A call of a program passes three or four threads before it is answered, each of which sleeps until the one before wakes it. A processor
//! without work sleeps too, and to wake it takes longer than most calls do: 50 us and more in a virtual machine, where a
//! sleeping processor is taken from the machine, and as long from the deep states of a real one. So whoever answers calls says so
//! for each of them, and while there are many the kernel is asked for processors that wake quickly (`/dev/cpu_dma_latency`,
//! Linux `Documentation/power/pm_qos_interface.rst`). docs/adr/0019 says what that brings and costs.
//!
//! What is asked for holds at most as long as the device is open, so nothing of it survives its process. Where the device is missing or may not be
//! opened, as by another user than root, processors sleep as the machine is set: calls are answered all the same.
//!
//! For the serving threads of mounts and servers; any thread may call, and none waits.

mod awake;
mod idle;
mod pace;

pub use awake::Awake;
pub use idle::Idle;
