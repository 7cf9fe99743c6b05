//! The columns of a Parquet table: what their values are, and how they are nested.

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};

/// A column.
pub(in crate::import) struct Field {
    /// Its name.
    pub(in crate::import) name: String,
    /// What it holds.
    pub(in crate::import) content: Content,
}

/// What a column holds.
pub(in crate::import) enum Content {
    /// Values that a table of text can have.
    Values(Values),
    /// Something else, which it names.
    Other(&'static str),
}

/// How the values of a column are stored.
#[derive(Clone, Copy)]
pub(in crate::import) struct Values {
    /// The leaf of the schema.
    pub(super) leaf: usize,
    /// Whether whole numbers have no sign.
    pub(super) unsigned: bool,
    /// For lists, the definition level from which a list has elements.
    pub(super) list: Option<i16>,
}

/// The columns of a schema.
pub(super) fn of(schema: &SchemaDescriptor) -> Vec<Field> {
    let roots = schema.root_schema().get_fields();
    let mut leaves: Vec<Vec<usize>> = vec![Vec::new(); roots.len()];
    for leaf in 0..schema.num_columns() {
        if let Some(own) = leaves.get_mut(schema.get_column_root_idx(leaf)) {
            own.push(leaf);
        }
    }
    let field = |(root, leaves): (&std::sync::Arc<Type>, Vec<usize>)| Field {
        name: root.name().to_owned(),
        content: content(root, &leaves, schema),
    };
    roots.iter().zip(leaves).map(field).collect()
}

fn content(root: &Type, leaves: &[usize], schema: &SchemaDescriptor) -> Content {
    let ([leaf], Some(list)) = (leaves, nesting(root)) else {
        return Content::Other("nested values");
    };
    let column = schema.column(*leaf);
    if let Some(other) = other(&column) {
        return Content::Other(other);
    }
    let unsigned = match column.logical_type_ref() {
        Some(LogicalType::Integer(kind)) => !kind.is_signed,
        _ => matches!(
            column.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        ),
    };
    Content::Values(Values {
        leaf: *leaf,
        unsigned,
        list,
    })
}

/// The level from which a list has elements, if the column is one; `None` for any other nesting.
fn nesting(root: &Type) -> Option<Option<i16>> {
    let level = i16::from(root.is_optional());
    let repeated = |ty: &Type| {
        let info = ty.get_basic_info();
        info.has_repetition() && info.repetition() == Repetition::REPEATED
    };
    if root.is_primitive() {
        return Some(repeated(root).then_some(1));
    }
    let [inner] = root.get_fields() else {
        return None;
    };
    let flat = inner.is_primitive() || matches!(inner.get_fields(), [one] if one.is_primitive());
    let deeper = match inner.is_group() {
        true => inner.get_fields().iter().any(|one| repeated(one)),
        false => false,
    };
    let is_list = !repeated(root) && repeated(inner) && flat && !deeper;
    is_list.then_some(Some(level + 1))
}

/// What a column holds that is neither a text, a number nor a truth value.
fn other(column: &ColumnDescriptor) -> Option<&'static str> {
    let by_logic = match column.logical_type_ref() {
        Some(LogicalType::Date) => Some("dates"),
        Some(LogicalType::Time(_)) => Some("times"),
        Some(LogicalType::Timestamp(_)) => Some("timestamps"),
        Some(LogicalType::Decimal(_)) => Some("decimals"),
        Some(LogicalType::Float16) => Some("floats of 16 bits"),
        _ => None,
    };
    let converted = || match column.converted_type() {
        ConvertedType::DATE => Some("dates"),
        ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS => Some("times"),
        ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS => Some("timestamps"),
        ConvertedType::DECIMAL => Some("decimals"),
        ConvertedType::INTERVAL => Some("intervals"),
        _ => None,
    };
    let physical = || match column.physical_type() {
        Physical::INT96 => Some("timestamps"),
        Physical::FIXED_LEN_BYTE_ARRAY => Some("bytes"),
        Physical::BOOLEAN
        | Physical::INT32
        | Physical::INT64
        | Physical::FLOAT
        | Physical::DOUBLE
        | Physical::BYTE_ARRAY => None,
    };
    by_logic.or_else(converted).or_else(physical)
}
