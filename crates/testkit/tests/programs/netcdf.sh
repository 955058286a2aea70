# NetCDF files of every kind, from text and back.
cat > source.cdl <<'CDL'
netcdf weather {
dimensions: time = UNLIMITED ; lat = 3 ; lon = 4 ;
variables:
    double t(time, lat, lon) ; t:units = "K" ;
    int time(time) ;
data:
    time = 1, 2 ;
    t = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24 ;
}
CDL
for kind in classic 64-bit-offset netCDF-4 netCDF-4-classic; do
    ncgen -k "${kind/netCDF-4-classic/netCDF-4 classic model}" -o $kind.nc source.cdl ||
        ncgen -k "$kind" -o $kind.nc source.cdl
    ncdump $kind.nc | sed 1d > $kind.txt
done
for kind in 64-bit-offset netCDF-4 netCDF-4-classic; do diff classic.txt $kind.txt; done
nccopy -k netCDF-4 -d 5 classic.nc packed.nc
ncdump packed.nc | sed 1d | diff classic.txt -
nccopy -k classic packed.nc "$LOCAL/back.nc"
ncdump "$LOCAL/back.nc" | sed 1d | diff classic.txt -
