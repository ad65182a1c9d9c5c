"""The words of the command line, by what they are about; what they ask for is imported only then."""
