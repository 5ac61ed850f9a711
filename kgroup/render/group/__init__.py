"""Groups, dry runs and ZooKeeper's nodes as sheets and pages."""
