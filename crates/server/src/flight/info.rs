//! The capabilities and types of the server, as clients query them.

use std::sync::OnceLock;

use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlOuterJoinsSupportLevel, SqlSupportedCaseSensitivity,
    SqlSupportedGroupBy, SqlSupportedTransaction, SqlSupportedUnions, SupportedSqlGrammar, XdbcDataType,
    XdbcDatetimeSubcode,
};
use tonic::Status;

/// The version of the Arrow format that the server supports.
const ARROW_VERSION: &str = "59.3";

/// The capabilities of the server.
pub(super) fn sql() -> Result<&'static SqlInfoData, Status> {
    static MADE: OnceLock<Option<SqlInfoData>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let mut all = SqlInfoDataBuilder::new();
        all.append(SqlInfo::FlightSqlServerName, "PushdownDB");
        all.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
        all.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION);
        // Not read-only, since COPY writes objects if the user has the permission.
        all.append(SqlInfo::FlightSqlServerReadOnly, false);
        all.append(SqlInfo::FlightSqlServerSql, true);
        all.append(SqlInfo::FlightSqlServerSubstrait, false);
        all.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
        all.append(SqlInfo::FlightSqlServerCancel, true);
        all.append(SqlInfo::FlightSqlServerBulkIngestion, false);
        all.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, false);
        all.append(SqlInfo::FlightSqlServerStatementTimeout, 0);
        all.append(SqlInfo::FlightSqlServerTransactionTimeout, 0);
        all.append(SqlInfo::SqlDdlCatalog, false);
        all.append(SqlInfo::SqlDdlSchema, true);
        all.append(SqlInfo::SqlDdlTable, true);
        let (folded, exact) = (
            SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i64,
            SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i64,
        );
        all.append(SqlInfo::SqlIdentifierCase, folded);
        all.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
        all.append(SqlInfo::SqlQuotedIdentifierCase, exact);
        all.append(SqlInfo::SqlAllTablesAreSelectable, false);
        all.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i64);
        all.append(SqlInfo::SqlSearchStringEscape, "\\");
        all.append(SqlInfo::SqlExtraNameCharacters, "");
        all.append(SqlInfo::SqlSupportsColumnAliasing, true);
        all.append(SqlInfo::SqlNullPlusNullIsNull, true);
        all.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
        all.append(SqlInfo::SqlSupportsDifferentTableCorrelationNames, false);
        all.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
        all.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
        all.append(SqlInfo::SqlSupportedGroupBy, bit(SqlSupportedGroupBy::SqlGroupByUnrelated as i32));
        all.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
        all.append(SqlInfo::SqlSupportsNonNullableColumns, false);
        let grammar = [SupportedSqlGrammar::SqlMinimumGrammar, SupportedSqlGrammar::SqlCoreGrammar];
        all.append(SqlInfo::SqlSupportedGrammar, grammar.into_iter().fold(0, |all, one| all | bit(one as i32)));
        all.append(SqlInfo::SqlSupportsIntegrityEnhancementFacility, false);
        let joins = SqlOuterJoinsSupportLevel::SqlFullOuterJoins as i32;
        all.append(SqlInfo::SqlOuterJoinsSupportLevel, bit(joins));
        all.append(SqlInfo::SqlSchemaTerm, "schema");
        all.append(SqlInfo::SqlCatalogTerm, "catalog");
        all.append(SqlInfo::SqlCatalogAtStart, true);
        all.append(SqlInfo::SqlSelectForUpdateSupported, false);
        all.append(SqlInfo::SqlStoredProceduresSupported, false);
        all.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
        let unions = [SqlSupportedUnions::SqlUnion, SqlSupportedUnions::SqlUnionAll];
        all.append(SqlInfo::SqlSupportedUnions, unions.into_iter().fold(0, |all, one| all | bit(one as i32)));
        all.append(SqlInfo::SqlTransactionsSupported, false);
        all.append(SqlInfo::SqlBatchUpdatesSupported, true);
        all.append(SqlInfo::SqlSavepointsSupported, false);
        all.append(SqlInfo::SqlNamedParametersSupported, false);
        all.build().ok()
    });
    made.as_ref().ok_or_else(|| Status::internal("the properties of the server cannot be made"))
}

fn bit(place: i32) -> i32 {
    1 << place
}

/// The types: name, number, digits or bytes, literal, parameters, radix.
type Known = (&'static str, XdbcDataType, Option<i32>, Option<&'static str>, &'static [&'static str], Option<i32>);

const TYPES: [Known; 16] = [
    ("BOOLEAN", XdbcDataType::XdbcBit, Some(1), None, &[], None),
    ("TINYINT", XdbcDataType::XdbcTinyint, Some(8), None, &[], Some(2)),
    ("SMALLINT", XdbcDataType::XdbcSmallint, Some(16), None, &[], Some(2)),
    ("INTEGER", XdbcDataType::XdbcInteger, Some(32), None, &[], Some(2)),
    ("BIGINT", XdbcDataType::XdbcBigint, Some(64), None, &[], Some(2)),
    ("BIGINT UNSIGNED", XdbcDataType::XdbcBigint, Some(64), None, &[], Some(2)),
    ("REAL", XdbcDataType::XdbcReal, Some(24), None, &[], Some(2)),
    ("DOUBLE", XdbcDataType::XdbcDouble, Some(53), None, &[], Some(2)),
    ("DECIMAL", XdbcDataType::XdbcDecimal, Some(76), None, &["precision", "scale"], Some(10)),
    ("VARCHAR", XdbcDataType::XdbcVarchar, None, Some("'"), &[], None),
    ("BYTEA", XdbcDataType::XdbcVarbinary, None, Some("X'"), &[], None),
    ("DATE", XdbcDataType::XdbcDate, Some(10), Some("DATE '"), &[], None),
    ("TIME", XdbcDataType::XdbcTime, Some(18), Some("TIME '"), &[], None),
    ("TIMESTAMP", XdbcDataType::XdbcTimestamp, Some(29), Some("TIMESTAMP '"), &["precision"], None),
    ("TIMESTAMP WITH TIME ZONE", XdbcDataType::XdbcTimestamp, Some(35), Some("TIMESTAMPTZ '"), &["precision"], None),
    ("INTERVAL", XdbcDataType::XdbcInterval, None, Some("INTERVAL '"), &[], None),
];

/// The types that the server supports.
pub(super) fn types() -> Result<&'static XdbcTypeInfoData, Status> {
    static MADE: OnceLock<Option<XdbcTypeInfoData>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let mut all = XdbcTypeInfoDataBuilder::new();
        for (name, data_type, size, prefix, parameters, radix) in TYPES {
            let subcode = match data_type {
                // The subcodes of dates and of years are the same number.
                XdbcDataType::XdbcDate => Some(XdbcDatetimeSubcode::XdbcSubcodeYear),
                XdbcDataType::XdbcTime => Some(XdbcDatetimeSubcode::XdbcSubcodeTime),
                XdbcDataType::XdbcTimestamp => Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
                _ => None,
            };
            let is_instant = subcode.is_some();
            all.append(XdbcTypeInfo {
                type_name: name.to_owned(),
                data_type,
                column_size: size,
                literal_prefix: prefix.map(str::to_owned),
                literal_suffix: prefix.map(|_| "'".to_owned()),
                create_params: (!parameters.is_empty()).then(|| parameters.iter().map(ToString::to_string).collect()),
                nullable: Nullable::NullabilityNullable,
                case_sensitive: name == "VARCHAR",
                searchable: Searchable::Full,
                unsigned_attribute: radix.map(|_| name.ends_with("UNSIGNED")),
                fixed_prec_scale: false,
                auto_increment: radix.map(|_| false),
                local_type_name: Some(name.to_owned()),
                minimum_scale: (name == "DECIMAL" || is_instant).then_some(0),
                maximum_scale: if name == "DECIMAL" { Some(76) } else { is_instant.then_some(9) },
                sql_data_type: if is_instant { XdbcDataType::XdbcDatetime } else { data_type },
                datetime_subcode: subcode,
                num_prec_radix: radix,
                interval_precision: None,
            });
        }
        all.build().ok()
    });
    made.as_ref().ok_or_else(|| Status::internal("the types of the server cannot be made"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_are_made() {
        assert!(sql().is_ok());
        assert_eq!(types().unwrap().record_batch(None).unwrap().num_rows(), TYPES.len());
    }
}
