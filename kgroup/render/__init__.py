"""Reports to text: tables and documents."""
