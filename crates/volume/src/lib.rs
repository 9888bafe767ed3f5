//! Volumes: several devices as one, striped or in quadrangles.
