"""Images for `make demo` that the project may make: drawn firearms, and crops of packaged photographs.

No image of any data set is used. The photographs come inside the wheels of scikit-image, scikit-learn and
matplotlib; the firearms are drawn by this package. Needs the extra `[demo]`.
"""
