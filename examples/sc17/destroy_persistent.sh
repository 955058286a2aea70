#!/bin/bash
#SBATCH --partition=regular
#SBATCH --nodes=1
#SBATCH --time=00:05:00
#SBATCH --job-name="job_destroy_persistent"

# All data of the instance is lost. A wrong name is an error.
#BB destroy_persistent name=@NAME@
