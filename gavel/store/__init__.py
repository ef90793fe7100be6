"""The floor of the library: Parquet files that appear whole, and the warehouse."""
