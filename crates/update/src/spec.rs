//! Formats by space: what the blocks of a space hold, and how they are divided into partitions.
//!
//! A space gets its format when it is made ([`Engine::create_space_of`](crate::Engine::create_space_of)) and keeps it; the log
//! and checkpoints say which it is by its name, with its parameters. A program gives the formats that it knows when it opens
//! the engine ([`Formats`]).

use std::sync::Arc;

use moirai_units::{BlockCount, ByteCount};

use crate::block_format::{BlockFormat, NewBlocks};
use crate::codec::{Taker, put_bytes, put_number};
use crate::data::division::Division;
use crate::encoded::decode;
use crate::error::Error;
use crate::ids::PUT;
use crate::kind::Modification;
use crate::limits::{NAME_BYTES, VALUE_BYTES_MAX};
use crate::long::made::Made;
use crate::shape::Shape;
use crate::units::{UNITS_MAX, UnitSet};

/// Bytes of parameters at most: the log and checkpoints have them.
const PARAMETER_BYTES_MAX: usize = 4 << 10;

/// What the blocks of a space are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceFormat {
    /// The name of the format: see [`BlockFormat::name`].
    pub name: Box<str>,
    /// What the format is told, 4 KiB at most.
    pub parameters: Box<[u8]>,
    /// Bytes of a block: a multiple of 512, up to 1 MiB.
    pub block_bytes: ByteCount,
    /// Blocks of a partition at most, 1 to 64.
    pub partition_blocks: u32,
    /// How much may be staged for a partition, in percent of the bytes of its blocks at most: see
    /// [`Format`](crate::Format::staging_percent).
    pub staging_percent: u32,
}

type Maker = Arc<dyn Fn(&[u8]) -> Option<Arc<dyn BlockFormat>> + Send + Sync>;

/// The formats that a program knows, by their names.
#[derive(Clone, Default)]
pub struct Formats {
    makers: Vec<(&'static str, Maker)>,
}

impl Formats {
    /// None yet.
    #[must_use]
    pub fn new() -> Formats {
        Formats::default()
    }

    /// One format without parameters.
    #[must_use]
    pub fn of(format: impl BlockFormat + 'static) -> Formats {
        Formats::new().with(format)
    }

    /// Adds a format without parameters.
    #[must_use]
    pub fn with(self, format: impl BlockFormat + 'static) -> Formats {
        let name = format.name();
        let format: Arc<dyn BlockFormat> = Arc::new(format);
        self.with_parameters(name, move |parameters| {
            parameters.is_empty().then(|| Arc::clone(&format))
        })
    }

    /// Adds a format whose spaces have parameters: `make` gives the format of a space with these, or `None` for parameters that
    /// no space has. The name of what it makes is `name`.
    #[must_use]
    pub fn with_parameters(
        mut self,
        name: &'static str,
        make: impl Fn(&[u8]) -> Option<Arc<dyn BlockFormat>> + Send + Sync + 'static,
    ) -> Formats {
        self.makers.retain(|(other, _)| *other != name);
        self.makers.push((name, Arc::new(make)));
        self
    }

    /// The format with this name and these parameters.
    fn make(&self, name: &str, parameters: &[u8]) -> Option<Arc<dyn BlockFormat>> {
        let (_, make) = self.makers.iter().find(|(other, _)| *other == name)?;
        make(parameters)
    }
}

impl std::fmt::Debug for Formats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.makers.iter().map(|(name, _)| name)).finish()
    }
}

/// A space's format as the log and checkpoints store it: an empty name stands for the format that the device was formatted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpecBytes<'a> {
    name: &'a [u8],
    parameters: &'a [u8],
    block: u64,
    partition_blocks: u32,
    staging: u64,
}

impl<'a> SpecBytes<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name);
        if !self.name.is_empty() {
            put_bytes(out, self.parameters);
            put_number(out, self.block);
            put_number(out, u64::from(self.partition_blocks));
            put_number(out, self.staging);
        }
    }

    pub(crate) fn take(taker: &mut Taker<'a>) -> Option<SpecBytes<'a>> {
        let name = taker.bytes()?;
        if name.is_empty() {
            return Some(SpecBytes::default());
        }
        let parameters = taker.bytes()?;
        let (block, partition_blocks) = (taker.number()?, taker.number32()?);
        Some(SpecBytes { name, parameters, block, partition_blocks, staging: taker.number()? })
    }

    /// The name, for messages.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }
}

/// What the blocks of a space are.
pub(crate) struct Spec {
    pub(crate) format: Arc<dyn BlockFormat>,
    pub(crate) division: Division,
    /// The shape of its blocks; the longest, where partitions have shapes of their own.
    pub(crate) shape: Shape,
    /// The longest key, and the longest value that is in a block.
    pub(crate) longest: (usize, usize),
    /// Its name and parameters; `None` where it is the one that the device was formatted with.
    told: Option<(Box<str>, Box<[u8]>)>,
}

impl Spec {
    /// `None` where the units of the format make no block.
    fn new(
        format: Arc<dyn BlockFormat>,
        division: Division,
        told: Option<(Box<str>, Box<[u8]>)>,
    ) -> Option<Spec> {
        let longest = format.longest(division.block_bytes());
        let shape = Shape::new(format.units(division.block_bytes()))?;
        let is_block = shape.block_bytes() == division.block_bytes();
        is_block.then_some(Spec { format, division, shape, longest, told })
    }

    /// No blocks yet; those to come have these units.
    pub(crate) fn new_blocks(&self, units: UnitSet, made: Made) -> NewBlocks {
        let mut new_blocks =
            NewBlocks::with(self.block_bytes(), &self.shape.unit_bytes, units, made);
        new_blocks.ends = self.format.fits_units().then(|| vec![Vec::new(); self.shape.len()]);
        new_blocks
    }

    /// The units that a modification changes, as queues have it.
    pub(crate) fn units_of(&self, encoded: &[u8]) -> UnitSet {
        if self.shape.len() == 1 {
            return UnitSet::ALL;
        }
        decode(encoded).next().map_or(UnitSet::ALL, |one| self.format.units_of(&one))
    }

    /// An error where none of these units is there.
    pub(crate) fn check_units(&self, units: UnitSet) -> Result<(), Error> {
        if self.shape.units(units).next().is_some() {
            return Ok(());
        }
        let (name, count) = (self.format.name(), self.shape.len());
        let problem = format!(
            "no unit of format `{name}` is asked for, which has {count}: name one from 0 to {}",
            count - 1
        );
        Err(Error::Options { problem })
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.division.block_bytes()
    }

    /// Bytes of the shape of a partition in the entry that says where its blocks are, at most.
    pub(crate) fn shape_bytes_max(&self) -> usize {
        if self.format.fits_units() { self.shape.encoded_bytes_max() } else { 0 }
    }

    /// The longest value of a put.
    pub(crate) fn value_bytes_max(&self) -> u64 {
        match self.format.takes_long_values() {
            true => VALUE_BYTES_MAX.0,
            false => self.longest.1 as u64,
        }
    }

    /// Whether a modification is a put of a value that no block holds.
    pub(crate) fn is_long(&self, one: Modification<'_>) -> bool {
        one.kind == PUT && one.bytes.len() > self.longest.1
    }

    pub(crate) fn check_value_length(&self, have: u64) -> Result<(), Error> {
        let most = self.value_bytes_max();
        match have > most {
            true => Err(Error::TooLong { what: "value", have: have as usize, most: most as usize }),
            false => Ok(()),
        }
    }

    /// What a program asks for to get it.
    pub(crate) fn asked(&self) -> SpaceFormat {
        let Division { block, partition_blocks, staging, .. } = self.division;
        let of_blocks = block.0 * u64::from(partition_blocks);
        let (name, parameters) = match &self.told {
            Some((name, parameters)) => (name.clone(), parameters.clone()),
            None => (self.format.name().into(), Box::default()),
        };
        let staging_percent = (staging.0 * 100).div_ceil(of_blocks.max(1)) as u32;
        let block_bytes = block.bytes();
        SpaceFormat { name, parameters, block_bytes, partition_blocks, staging_percent }
    }

    /// As the log and checkpoints store it.
    pub(crate) fn bytes(&self) -> SpecBytes<'_> {
        let Some((name, parameters)) = &self.told else { return SpecBytes::default() };
        let Division { block, partition_blocks, staging, .. } = self.division;
        let (block, staging) = (block.0, staging.0);
        SpecBytes { name: name.as_bytes(), parameters, block, partition_blocks, staging }
    }
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Spec").field(&self.format.name()).field(&self.division).finish()
    }
}

/// The formats that are known while an engine is open.
#[derive(Clone, Debug)]
pub(crate) struct Specs {
    formats: Formats,
    /// Of spaces that are made without naming a format.
    pub(crate) default: Arc<Spec>,
}

impl Specs {
    /// With the format called `name` for spaces that name none; `None` where it is not known.
    pub(crate) fn new(formats: Formats, name: &str, division: Division) -> Option<Specs> {
        let default = Spec::new(formats.make(name, &[])?, division, None)?;
        Some(Specs { formats, default: Arc::new(default) })
    }

    /// The format that the log or a checkpoint stores; `None` for an unknown name, and for parameters or lengths that it does not
    /// take.
    pub(crate) fn made(&self, bytes: SpecBytes<'_>) -> Option<Arc<Spec>> {
        if bytes.name.is_empty() {
            return Some(Arc::clone(&self.default));
        }
        let name = std::str::from_utf8(bytes.name).ok()?;
        let (block, staging) = (BlockCount(bytes.block), BlockCount(bytes.staging));
        let grain = self.default.division.grain;
        let division = Division { grain, block, partition_blocks: bytes.partition_blocks, staging };
        let format =
            division.is_addressable().then(|| self.formats.make(name, bytes.parameters))??;
        let told = Some((name.into(), bytes.parameters.into()));
        Some(Arc::new(Spec::new(format, division, told)?))
    }

    /// What a program asks for; the problem where it cannot be.
    pub(crate) fn asked(&self, asked: &SpaceFormat) -> Result<Arc<Spec>, String> {
        let SpaceFormat { name, parameters, block_bytes, partition_blocks, staging_percent } =
            asked;
        let grain = self.default.division.grain;
        let division = Division::of(*block_bytes, *partition_blocks, *staging_percent, grain)?;
        if name.is_empty() || name.len() > NAME_BYTES || parameters.len() > PARAMETER_BYTES_MAX {
            return Err(format!(
                "a format cannot be called `{name}` with {} bytes of parameters: take a name of 1 to {NAME_BYTES} bytes, and up \
                 to {PARAMETER_BYTES_MAX} bytes of parameters",
                parameters.len()
            ));
        }
        let format = self.formats.make(name, parameters).ok_or_else(|| {
            format!("the format `{name}` with these parameters is not among those that the engine was opened with")
        })?;
        let told = Some((name.clone(), parameters.clone()));
        let spec = Spec::new(format, division, told).ok_or_else(|| {
            format!(
                "the format `{name}` makes no blocks of {block_bytes}: its units are multiples of 512 bytes, 1 to {UNITS_MAX}, \
                 that sum up to a block"
            )
        })?;
        Ok(Arc::new(spec))
    }
}

/// Whole blocks, for tests of what knows no devices.
#[cfg(any(fuzzing, test))]
pub(crate) fn whole_blocks(division: Division) -> Specs {
    let format = crate::WholeBlocks;
    let specs = Specs::new(Formats::of(format), format.name(), division);
    specs.unwrap_or_else(|| panic!("the format is among them"))
}
