//! The program of the README: reads a track of a simulated disk.

#![expect(clippy::print_stdout, reason = "a program says what it found")]

use moirai::storage::Device;
use moirai::units::Lbn;
use moirai::{open_device, runtime};
use std::sync::Arc;

fn main() -> moirai::storage::Result<()> {
    // A disk of 1999, in virtual time.
    runtime::block_on_virtual(1, async {
        let disk: Arc<dyn Device> = open_device("sim:quantum-atlas-10k").await?;
        let track = disk.ensemble(Lbn(1000))?.blocks;
        disk.read(track).await?;
        println!("a track of {track} in {}", runtime::now());
        Ok(())
    })
}
