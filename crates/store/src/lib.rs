//! Tables on one device or volume: pages, extents, catalog, scans and fetches.
