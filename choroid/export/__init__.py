"""`choroid export`: history, journal and ledger of a period as CSV and Parquet files with units and a manifest."""
