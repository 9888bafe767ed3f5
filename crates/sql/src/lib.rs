//! SQL over the tables of a store, through DataFusion.
