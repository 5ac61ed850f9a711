"""Operations for ZooKeeper consumers only: nodes and fetchers."""
