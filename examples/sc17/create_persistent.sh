#!/bin/bash
#SBATCH --partition=regular
#SBATCH --nodes=1
#SBATCH --time=00:05:00
#SBATCH --job-name="job_create_persistent"

# A persistent instance outlives the job that makes it. Its name must be unique.
#BB create_persistent name=@NAME@ capacity=@CAPACITY@ access_mode=striped type=scratch
