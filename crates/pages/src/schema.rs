//! The schema of pages: which columns there are, and which of them are the key.

use moirai_encodings::NumberType;

/// Columns at most: the parameters of a space have four bytes for each.
pub const COLUMNS_MAX: usize = 1000;
/// Units of a page at most, that of the key included.
const UNITS_MAX: usize = 64;
/// Columns of a key at most.
const KEY_COLUMNS_MAX: usize = 16;

/// What the values of a column are to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Numbers of a width. Floats are numbers with the order of their bits.
    Number(NumberType),
    /// Texts, or any bytes.
    Text,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// What its values are.
    pub of: ColumnType,
    /// The unit of a page that holds its minipage.
    pub(crate) unit: u8,
}

/// Where the minipages of a page lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Those of each attribute in a unit of their own: they are consecutive, of all pages of a row group (Clotho 3.1).
    #[default]
    ByAttribute,
    /// All of them in one unit: a page is consecutive. That is PAX (Clotho 2.2).
    ByPage,
}

/// The columns of a table, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSchema {
    columns: Vec<Column>,
    /// Columns of the key, in its order.
    key: Vec<usize>,
    /// Rows of a page at most.
    rows_max: u32,
    /// Of each unit, the columns that it holds.
    by_unit: Vec<Vec<usize>>,
}

impl PageSchema {
    /// A table of these columns, up to [`COLUMNS_MAX`], whose key are some of them, 1 to 16 different ones, in pages of up to
    /// `rows_max` rows. `None` where that cannot be.
    #[must_use]
    pub fn new(types: &[ColumnType], key: &[usize], rows_max: u32) -> Option<PageSchema> {
        PageSchema::placed(types, key, rows_max, Placement::ByAttribute)
    }

    /// The same with minipages in other places.
    #[must_use]
    pub fn placed(
        types: &[ColumnType],
        key: &[usize],
        rows_max: u32,
        placement: Placement,
    ) -> Option<PageSchema> {
        let is_column = |index: &usize| *index < types.len();
        let is_first = |(at, index): (usize, &usize)| !key.iter().take(at).any(|one| one == index);
        let is_key = (1..=KEY_COLUMNS_MAX).contains(&key.len())
            && key.iter().all(is_column)
            && key.iter().enumerate().all(is_first);
        // Numbers of more than 64 bits are signed.
        let wide = NumberType { width_bytes: 16, is_signed: false };
        let is_table = !types.contains(&ColumnType::Number(wide))
            && types.len() <= COLUMNS_MAX
            && (1..=1 << 20).contains(&rows_max);
        if !is_key || !is_table {
            return None;
        }
        let others = types.len() - key.len();
        let first = match placement {
            Placement::ByAttribute => 1,
            Placement::ByPage => 0,
        };
        // Where there are more columns than units, neighbours share one.
        let shared = match placement {
            Placement::ByAttribute => others.div_ceil(UNITS_MAX - 1).max(1),
            Placement::ByPage => usize::MAX,
        };
        let mut before = 0;
        let mut by_unit = vec![key.to_vec()];
        let columns = types.iter().enumerate().map(|(index, of)| {
            if key.contains(&index) {
                return Column { of: *of, unit: 0 };
            }
            let unit = first + before / shared;
            before += 1;
            match by_unit.get_mut(unit) {
                Some(columns) => columns.push(index),
                None => by_unit.push(vec![index]),
            }
            Column { of: *of, unit: unit as u8 }
        });
        let columns = columns.collect();
        Some(PageSchema { columns, key: key.into(), rows_max, by_unit })
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns of the key, in its order.
    #[must_use]
    pub fn key(&self) -> &[usize] {
        &self.key
    }

    /// Rows of a page at most.
    #[must_use]
    pub fn rows_max(&self) -> usize {
        self.rows_max as usize
    }

    /// Units of a page.
    #[must_use]
    pub fn units(&self) -> usize {
        self.by_unit.len()
    }

    /// The unit of a page that holds a column.
    #[must_use]
    pub fn unit(&self, column: usize) -> Option<usize> {
        self.columns.get(column).map(|column| usize::from(column.unit))
    }

    /// The columns that a unit holds, in the order of their minipages: the first ones of unit 0 are the key.
    pub(crate) fn columns_of(&self, unit: usize) -> &[usize] {
        self.by_unit.get(unit).map_or(&[], Vec::as_slice)
    }

    /// As the parameters of a space: rows of a page (4), columns of the key (2), then the number of each (2); then two bytes for
    /// each column: bytes of a number, with 128 where it is signed, or 0 of a text; and its unit.
    #[must_use]
    pub fn parameters(&self) -> Vec<u8> {
        let mut bytes = self.rows_max.to_le_bytes().to_vec();
        bytes.extend((self.key.len() as u16).to_le_bytes());
        self.key.iter().for_each(|column| bytes.extend((*column as u16).to_le_bytes()));
        for Column { of, unit } in &self.columns {
            let of = match of {
                ColumnType::Text => 0,
                ColumnType::Number(NumberType { width_bytes, is_signed }) => {
                    *width_bytes as u8 | u8::from(*is_signed) << 7
                }
            };
            bytes.extend([of, *unit]);
        }
        bytes
    }

    /// The schema that has these parameters.
    #[must_use]
    pub fn of_parameters(bytes: &[u8]) -> Option<PageSchema> {
        let (rows_max, rest) = bytes.split_first_chunk()?;
        let (keys, rest) = rest.split_first_chunk()?;
        let (key, columns) = rest.split_at_checked(2 * usize::from(u16::from_le_bytes(*keys)))?;
        let (key, _) = key.as_chunks();
        let key: Vec<usize> = key.iter().map(|one| usize::from(u16::from_le_bytes(*one))).collect();
        let (columns, []) = columns.as_chunks() else { return None };
        let of = |[of, _]: &[u8; 2]| match (of & 127, of >> 7 == 1) {
            (0, false) => Some(ColumnType::Text),
            (width @ (1 | 2 | 4 | 8 | 16), is_signed) => {
                let width_bytes = usize::from(width);
                Some(ColumnType::Number(NumberType { width_bytes, is_signed }))
            }
            _ => None,
        };
        let types: Vec<ColumnType> = columns.iter().map(of).collect::<Option<_>>()?;
        let placement = match columns.iter().all(|[_, unit]| *unit == 0) {
            true => Placement::ByPage,
            false => Placement::ByAttribute,
        };
        let schema = PageSchema::placed(&types, &key, u32::from_le_bytes(*rows_max), placement)?;
        let are_units =
            schema.columns.iter().zip(columns).all(|(one, [_, unit])| one.unit == *unit);
        are_units.then_some(schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: ColumnType = ColumnType::Number(NumberType { width_bytes: 8, is_signed: true });
    const BYTE: ColumnType = ColumnType::Number(NumberType { width_bytes: 1, is_signed: false });

    #[test]
    fn parameters_come_back() {
        let wide = [ColumnType::Text; COLUMNS_MAX];
        for (types, key) in
            [(&[INT][..], &[0][..]), (&[ColumnType::Text, INT, BYTE], &[2, 0]), (&wide, &[7])]
        {
            let schema = PageSchema::new(types, key, 2048).unwrap();
            let parameters = schema.parameters();
            assert_eq!(PageSchema::of_parameters(&parameters), Some(schema.clone()));
            assert!(parameters.len() <= 4096 && schema.units() <= UNITS_MAX);
            assert_eq!(PageSchema::of_parameters(&parameters[..parameters.len() - 1]), None);
            let all: usize = (0..schema.units()).map(|unit| schema.columns_of(unit).len()).sum();
            assert_eq!(all, types.len());
            let pax = PageSchema::placed(types, key, 2048, Placement::ByPage).unwrap();
            assert_eq!(PageSchema::of_parameters(&pax.parameters()), Some(pax.clone()));
            assert_eq!((pax.units(), pax.columns_of(0).len()), (1, types.len()));
            assert_eq!(&pax.columns_of(0)[..key.len()], key);
        }
        for (types, key, rows) in [
            (&[INT][..], &[][..], 1),
            (&[INT], &[1], 1),
            (&[INT, INT], &[1, 1], 1),
            (&[INT], &[0], 0),
            (&[INT; COLUMNS_MAX + 1], &[0], 1),
        ] {
            assert_eq!(PageSchema::new(types, key, rows), None);
        }
    }
}
