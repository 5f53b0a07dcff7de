# Plain Python, compiled without type declarations.
