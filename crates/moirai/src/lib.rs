//! The library: opens devices, volumes and stores by their URI.
