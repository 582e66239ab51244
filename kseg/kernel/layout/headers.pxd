include "kseg/kernel/layout/headers.pxi"
