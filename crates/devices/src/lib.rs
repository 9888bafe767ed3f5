//! Devices behind the storage interface: files, and disks simulated in virtual time.

mod block;
mod contents;
mod controller;
mod direct;
mod faulty;
mod file;
mod file_parts;
mod flushes;
mod host_bus;
mod in_place;
mod lock;
mod open;
mod profiles;
mod recorder;
mod ring;
pub mod scsi;
mod section;
mod simulated;
mod system;
mod zoned;

pub use contents::Contents;
pub use controller::ArrayController;
pub use faulty::{FaultyDevice, Medium, Power};
pub use file::{FileDevice, FileOptions};
pub use host_bus::HostBus;
pub use moirai_models::WritePolicy;
pub use open::{Access, NewFiles, SCHEMES, is_simulated, model, open, open_without_data};
pub use profiles::{NamedDrive, NamedModel, drive, import, import_mems, named_model};
pub use recorder::Recorder;
pub use simulated::{SimulatedDisk, SimulatedMems, SimulatedOptions, SimulatedSsd};
pub use system::{SystemArray, SystemSays};
pub use zoned::{ZoneOptions, ZonedDevice};
