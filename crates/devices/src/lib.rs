//! Devices behind the storage interface: files and simulated disks.
