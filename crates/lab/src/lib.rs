//! The laboratory: experiments in virtual time beside the published figures.
